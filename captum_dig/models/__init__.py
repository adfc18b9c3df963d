"""A text model as a function of its embeddings, and its tokenizer: loading, encoding, words."""
