"""The NumPy level: kernels for eager calls, and the fallback of plans where no native kernel applies."""
