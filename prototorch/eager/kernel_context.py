"""The context in which kernels of NumPy are called one by one.

The settings of `NumpyRunContext` take 3 microseconds to make and to undo, which is more than a small op takes. They
belong to the `contextvars.Context` (NumPy 2), so that one context that has them is entered instead, in 0.1.
"""

from __future__ import annotations

from contextvars import Context

from prototorch.engine.backends.cpu.worker_pool import NumpyRunContext

__all__ = ["ALREADY_ENTERED", "kernel_context"]

#: what Python's error says where another thread, or a kernel that called this one, is in the context
ALREADY_ENTERED = "cannot enter context"


def kernel_context() -> Context:
    """A context with NumPy's settings for kernels, and no other ones."""
    context = Context()
    context.run(NumpyRunContext().__enter__)
    return context
