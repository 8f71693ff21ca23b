"""The registry of PyTorch's functions on tensors: a function that is there is a name of the package and a method.

    @tensor_function(in_place=True)
    def clamp(input, min=None, max=None): ...

makes ``pt.clamp(x, min=0)``, ``x.clamp(min=0)`` and ``x.clamp_(min=0)``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

from prototorch import ops
from prototorch.eager.dtype import can_cast
from prototorch.eager.in_place import assign, update_directly
from prototorch.eager.tape import next_entry_number
from prototorch.eager.tensor import Tensor
from prototorch.errors import ShapeError, UsageError
from prototorch.graph.symbolic_functions import SYMBOLIC_FUNCTIONS, argument_symbols

__all__ = ["FUNCTIONS", "check_arguments", "for_symbols", "tensor_function", "tensor_method"]

#: NumPy's names of arguments, which PyTorch takes, too
_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim"}

#: functions of the package by name
FUNCTIONS: dict[str, Callable[..., Any]] = {}

_Function = TypeVar("_Function", bound=Callable[..., Any])


def tensor_function(
    function: Any = None,
    *,
    name: str = "",
    method: bool = True,
    in_place: bool = False,
    aliases: Sequence[str] = (),
    symbolic: bool = True,
) -> Any:
    """Register a function of tensors by its name (or ``name``, where its own is another thing in Python): ``pt.NAME``;
    with ``method`` also ``Tensor.NAME``; with ``in_place`` ``Tensor.NAME_``, which overwrites the tensor with the
    result. aliases: further names. symbolic: whether graphs, also of files, may have it: False for a function that
    changes its arguments or anything else, or takes what is no tensor."""

    def register(function: _Function) -> _Function:
        function = _refuse_other_values(function, name or function.__name__.rstrip("_"))
        for public_name in (name or function.__name__.rstrip("_"), *aliases):
            FUNCTIONS[public_name] = takes_symbols(function, public_name, symbolic)
            if method:
                setattr(Tensor, public_name, function)
            if in_place:
                setattr(Tensor, f"{public_name}_", in_place_form(function, f"{public_name}_"))
        return function

    return register if function is None else register(function)


def takes_symbols(function: Callable[..., Any], name: str, symbolic: bool = True) -> Callable[..., Any]:
    """The function for callers, who may give it symbolic tensors: then it is recorded, to run with their graph, or
    (``symbolic=False``) UsageError is raised."""
    if symbolic:
        SYMBOLIC_FUNCTIONS[name] = function

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        for one in args:
            kind = type(one)
            if kind is not Tensor and (getattr(kind, "is_symbolic", False) or kind is list or kind is tuple):
                break
        else:
            if not options:
                return function(*args)
        symbol = next(argument_symbols([args, options]), None)
        if symbol is None:
            return function(*args, **options)
        if not symbolic:
            raise UsageError(
                f"{name}: a graph has only functions that compute new values, and change nothing else; "
                f"got {symbol!r:.60}"
            )
        check_arguments(function, args, options)
        return symbol.call_function(name, args, options)

    call.__module__, _, call.__qualname__ = f"prototorch.{name}".rpartition(".")  # by which it is pickled
    return call


def for_symbols(function: Callable[..., Any], name: str, module: str) -> Callable[..., Any]:
    """A function of another module of the package for callers: symbols may be given to it, under the module's name and
    its own (``nn.functional.relu``); under the name alone where it is registered by that."""
    if SYMBOLIC_FUNCTIONS.get(name) is function:
        return FUNCTIONS[name]
    return takes_symbols(function, f"{module.partition('.')[2]}.{name}", not name.endswith("_"))


def check_arguments(function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Raise TypeError where a function does not take so many arguments, or none of these names (NumPy's included), and
    UsageError where it would change its argument in place."""
    signature = inspect.signature(function)
    options = {n if n in signature.parameters else _NUMPY_NAMES.get(n, n): value for n, value in options.items()}
    if signature.bind(*args, **options).arguments.get("inplace"):
        raise UsageError(f"{function.__name__}: inplace=True changes its argument, as no function of a graph does")


def _refuse_other_values(function: _Function, name: str) -> _Function:
    """The function, where a call with another value in the place of the tensor raises UsageError."""

    parameters = inspect.signature(function).parameters
    numpy_names = {
        numpy_name: torch_name
        for numpy_name, torch_name in _NUMPY_NAMES.items()
        if torch_name in parameters and numpy_name not in parameters
    }

    @wraps(function)
    def with_check(*args: Any, **options: Any) -> Any:
        if options and numpy_names:
            for numpy_name, torch_name in numpy_names.items():
                if numpy_name in options and torch_name not in options:
                    options[torch_name] = options.pop(numpy_name)
        try:
            return function(*args, **options)
        except AttributeError as error:
            values = [v for v in (*args, *options.values()) if not hasattr(v, "interpreter")]
            if any(getattr(error, "obj", None) is v for v in values):
                kind = type(error.obj).__name__
                raise UsageError(f"{name}: expected a tensor, got {kind}") from None
            raise

    return with_check  # type: ignore[return-value]


def tensor_method(function: Any = None, *, name: str = "") -> Any:
    """Register a method of tensors that is no function of the package."""

    def register(function: _Function) -> _Function:
        setattr(Tensor, name or function.__name__, function)
        return function

    return register if function is None else register(function)


def check_in_place(result: Tensor, target: Tensor, name: str) -> None:
    """Raises UsageError where a tensor cannot take a result of another element type, as in PyTorch: integers no
    fractions, bool no numbers; and ShapeError where the result has another shape than the tensor."""
    if result.spec.dtype != target.spec.dtype and not can_cast(result.dtype, target.dtype):
        raise UsageError(
            f"{name}: the result type {result.dtype!r} cannot be cast to that of the tensor, {target.dtype!r}; "
            f"use {name[:-1]}, or cast the tensor"
        )
    if result.shape != target.shape:
        raise ShapeError(f"{name}: the result has the shape {list(result.shape)}, the tensor {list(target.shape)}")


#: in-place forms that are one op of the tensor and another one of its element type
_DIRECT = {"add_": ops.add, "sub_": ops.subtract, "mul_": ops.multiply, "div_": ops.divide}


def in_place_form(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The method that overwrites the tensor with the function's result, which must broadcast to its shape."""

    op = _DIRECT.get(name)

    @wraps(function)
    def method(self: Tensor, *args: Any, **options: Any) -> Tensor:
        if op is not None and not options and len(args) == 1 and update_directly(self, op, args[0]):
            return self
        since = next_entry_number()
        result = function(self, *args, **options)
        check_in_place(result, self, name)
        return assign(self, result, name, since)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"As `{name[:-1]}`, in place: the tensor takes the result."
    return method
