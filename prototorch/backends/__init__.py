"""Switches of the libraries that compute, by PyTorch's names: ``pt.backends.cudnn.deterministic = True``.

They are those of `prototorch.eager.compute_modes`; nothing of CUDA is imported here.
"""

from prototorch.backends import cuda, cudnn

__all__ = ["cuda", "cudnn"]
