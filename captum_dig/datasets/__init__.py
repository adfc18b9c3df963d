"""Data sets in, scores out."""
