"""Tensors of one value: zeros, ones, full, empty, in given shapes or in that of another tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.eager.dims import as_shape
from prototorch.eager.dtype import as_dtype, dtype_of_scalar, get_default_dtype
from prototorch.eager.interpreter import interpreter_for
from prototorch.eager.operands import write_out
from prototorch.eager.registry import tensor_function, tensor_method
from prototorch.eager.scalars import check_number, number_array
from prototorch.errors import UsageError
from prototorch.spec import Spec

__all__ = ["check_creation", "empty", "full", "new_tensor_options", "ones", "zeros"]

_LAYOUTS = (None, "strided")


def check_creation(name: str, options: dict[str, Any]) -> None:
    """Raises UsageError for an argument of PyTorch's creation functions that means something else here."""
    layout, memory_format = options.pop("layout", None), options.pop("memory_format", None)
    options.pop("pin_memory", None)  # memory of the host is pinned by the data loader
    if str(layout).rpartition(".")[2] not in ("None", "strided"):
        raise UsageError(f"{name}: there are dense tensors alone, got layout={layout}")
    if str(memory_format).rpartition(".")[2] not in ("None", "contiguous_format", "preserve_format"):
        raise UsageError(f"{name}: the memory is in the order of the dimensions, got memory_format={memory_format}")
    if options:
        raise UsageError(f"{name}: unknown argument {sorted(options)[0]!r}")


def make_filled(
    name: str,
    shape: tuple[int, ...],
    value: Any,
    dtype: Any,
    device: Any,
    requires_grad: bool,
    out: Any,
    options: dict[str, Any],
) -> Any:
    """A new tensor of one value."""
    check_creation(name, options)
    target = as_dtype(dtype) if dtype is not None else get_default_dtype() if out is None else out.dtype
    interpreter = interpreter_for(device)
    if value:
        check_number(value, target, name)
        filled_tensor = interpreter.constant(np.full(shape, number_array(value, str(target))))
    else:
        filled_tensor = interpreter.zeros(Spec(shape, str(target)))
    if out is not None:
        return write_out(filled_tensor, out, name)
    if requires_grad:
        filled_tensor.requires_grad = True
    return filled_tensor


def _define(name: str, value: float, doc: str) -> Any:
    def function(
        *size: Any, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, **options: Any
    ) -> Any:
        if "size" in options:
            size = (options.pop("size"),)
        return make_filled(name, as_shape(size, name), value, dtype, device, requires_grad, out, options)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""A tensor {doc} of a shape, given by its sizes or as one sequence (torch.{name}).

    dtype: default float32 (`set_default_dtype`). device: default "cpu".
    """
    return tensor_function(function, method=False)


zeros = _define("zeros", 0, "of zeros")
ones = _define("ones", 1, "of ones")
empty = _define("empty", 0, "of zeros (memory without a defined content is not given)")


@tensor_function(method=False)
def full(
    size: Any,
    fill_value: Any,
    *,
    out: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Any:
    """A tensor of one value of a shape (torch.full). dtype: default that of the value: bool, int64 or float32."""
    value = fill_value.item() if hasattr(fill_value, "item") else fill_value
    if not isinstance(value, bool | int | float):
        raise UsageError(f"full: expected a number, got {fill_value!r:.60}")
    target = dtype if dtype is not None or out is not None else dtype_of_scalar(value)
    return make_filled("full", as_shape((size,), "full"), value, target, device, requires_grad, out, options)


def new_tensor_options(input: Any, dtype: Any, device: Any) -> tuple[Any, Any]:
    """The element type and the device of a tensor like another one."""
    return (str(input.dtype) if dtype is None else dtype), (input.device if device is None else device)


def _define_like(name: str, value: float, doc: str) -> None:
    def like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **options: Any) -> Any:
        target, place = new_tensor_options(input, dtype, device)
        return make_filled(f"{name}_like", tuple(input.shape), value, target, place, requires_grad, None, options)

    like.__name__ = like.__qualname__ = f"{name}_like"
    like.__doc__ = f"A tensor {doc} of the shape, element type and device of another (torch.{name}_like)."
    tensor_function(like, method=False)

    def new(
        self: Any, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **options: Any
    ) -> Any:
        target, place = new_tensor_options(self, dtype, device)
        size = (options.pop("size"),) if "size" in options else size
        return make_filled(
            f"new_{name}", as_shape(size, f"new_{name}"), value, target, place, requires_grad, None, options
        )

    new.__name__ = new.__qualname__ = f"new_{name}"
    new.__doc__ = f"A tensor {doc} of a shape, of this tensor's element type and device (torch.Tensor.new_{name})."
    tensor_method(new)


_define_like("zeros", 0, "of zeros")
_define_like("ones", 1, "of ones")
_define_like("empty", 0, "of zeros")


@tensor_function(method=False)
def full_like(
    input: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **options: Any
) -> Any:
    """A tensor of one value, of the shape, element type and device of another (torch.full_like)."""
    target, place = new_tensor_options(input, dtype, device)
    return full(tuple(input.shape), fill_value, dtype=target, device=place, requires_grad=requires_grad, **options)


@tensor_method
def new_full(
    self: Any,
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Any:
    """A tensor of one value of a shape, of this tensor's element type and device (torch.Tensor.new_full)."""
    target, place = new_tensor_options(self, dtype, device)
    return full(size, fill_value, dtype=target, device=place, requires_grad=requires_grad, **options)
