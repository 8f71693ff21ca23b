"""A net as the source text of a PyTorch module."""
