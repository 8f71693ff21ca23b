"""The modes of recording, by PyTorch's module name."""

from prototorch.eager.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]
