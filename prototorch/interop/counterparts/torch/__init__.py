"""PyTorch's counterparts of our layers, one file a group of families."""
