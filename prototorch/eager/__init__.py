"""Eager mode: tensors, the tape, modules and functions."""
