"""The GPU. Nothing of CUDA is imported before a backend is made; see docs/gpu.md."""
