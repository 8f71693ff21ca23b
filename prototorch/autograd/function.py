"""`Function` and what belongs to it, by PyTorch's module name."""

from prototorch.eager.function import Function, once_differentiable
from prototorch.eager.function_context import FunctionCtx

__all__ = ["Function", "FunctionCtx", "once_differentiable"]
