"""Measurements against PyTorch."""
