"""PyTorch: how its layers store weights, and nets as its modules."""
