"""The CUDA backend. Nothing of CUDA is imported before a backend is created; see docs/gpu.md."""
