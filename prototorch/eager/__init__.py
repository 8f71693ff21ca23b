"""Eager mode: tensors, the tape, layers on tensors, PyTorch's functions."""
