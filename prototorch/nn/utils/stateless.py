"""Calls of modules with other tensors than their own, by PyTorch's older name ``nn.utils.stateless``."""

from prototorch.nn.functional_call import functional_call

__all__ = ["functional_call"]
