"""Text tasks: each defines how a sample is read, and which number of the model's output is explained."""
