"""Shared parts of the kernels: register tiles, fused epilogues, elementwise loops, copies in memory, random bits."""
