"""Kernels that move elements: copies, transposes, crops, padding, gathers and scatters."""
