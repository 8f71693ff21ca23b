"""TensorFlow 1's functions of symbols, each over the function of PyTorch's face."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.eager.device import Device
from prototorch.eager.dtype import DTYPES, as_dtype
from prototorch.eager.functions.creation import tensor
from prototorch.eager.generator import manual_seed
from prototorch.errors import UsageError
from prototorch.graph.symbolic import SymbolicTensor, calls_before
from prototorch.static.gradients import gradients as gradients_of

float16, float32, float64 = (DTYPES[name] for name in ("float16", "float32", "float64"))
int32, int64, uint8 = (DTYPES[name] for name in ("int32", "int64", "uint8"))


def placeholders_of(symbols: Sequence[SymbolicTensor]) -> list[SymbolicTensor]:
    """The inputs on which symbols depend."""
    read = [*symbols, *(s for call in calls_before(symbols) for s in call.inputs)]
    return list({s.number: s for s in read if s.call is None}.values())


def refuse_options(what: str, options: Mapping[str, Any]) -> None:
    """Raise UsageError for options that would change something, and are not here."""
    for name, value in options.items():
        if value is not None and value is not False and name != "name":
            raise UsageError(f"{what}: {name}={value!r:.40} is not in prototorch.compat.tf1")


def call_function(name: str, *args: Any, **options: Any) -> SymbolicTensor:
    """The symbol of a function of PyTorch's name; arrays among its arguments become constants."""
    values = [constant(a) if isinstance(a, np.ndarray | np.generic) else a for a in args]
    return SymbolicTensor.call_function(name, tuple(values), options)


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str | None = None) -> SymbolicTensor:
    """Numbers as a symbol. dtype: default float32 for numbers with a fraction, int32 for Python's integers."""
    array = np.asarray(value)
    if dtype is None and not isinstance(value, np.ndarray | np.generic):
        dtype = {"f": "float32", "i": "int32"}.get(array.dtype.kind)
    elif dtype is None and array.dtype == np.float64:
        dtype = "float32"  # what TensorFlow makes of an array beside float32
    array = array if shape is None else np.broadcast_to(array, tuple(shape))
    return SymbolicTensor.call_function("clone", (tensor(array, dtype=None if dtype is None else as_dtype(dtype)),), {})


def _full_of(name: str) -> Callable[..., SymbolicTensor]:
    def create(shape: Any, dtype: Any = float32) -> SymbolicTensor:
        return call_function(name, tuple(shape), dtype=as_dtype(dtype))

    create.__doc__ = f"A symbol of {name}. shape: a tuple or list of sizes. dtype: default float32."
    return create


zeros, ones = _full_of("zeros"), _full_of("ones")


def random_normal(shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = float32) -> SymbolicTensor:
    """Normal numbers, drawn anew in each run (see `set_random_seed`)."""
    return call_function("randn", tuple(shape), dtype=as_dtype(dtype)) * stddev + mean


def random_uniform(shape: Any, minval: float = 0.0, maxval: float = 1.0, dtype: Any = float32) -> SymbolicTensor:
    """Uniform numbers from minval (included) to maxval, drawn anew in each run."""
    return call_function("rand", tuple(shape), dtype=as_dtype(dtype)) * (maxval - minval) + minval


def truncated_normal(shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = float32) -> SymbolicTensor:
    """Normal numbers no further than two standard deviations from the mean, drawn anew in each run."""
    within = 0.9544997361036416  # the probability of that: erf(sqrt(2))
    draws = (call_function("rand", tuple(shape), dtype=as_dtype(dtype)) * 2 - 1) * within
    return draws.erfinv() * (2**0.5 * stddev) + mean


def set_random_seed(seed: int) -> None:
    """Seed all random numbers of the package."""
    manual_seed(seed)


def gradients(ys: Any, xs: Any) -> list[Any]:
    """The gradients of the sum of ys with respect to each of xs, None for what ys do not depend on."""
    outputs, targets = (list(v) if isinstance(v, list | tuple) else [v] for v in (ys, xs))
    calls = {call.number for call in calls_before(outputs)} | {s.number for s in placeholders_of(outputs)}
    read = [t for t in targets if (t.number if t.call is None else t.call.number) in calls]
    results = {t.number: g for t, g in zip(read, gradients_of(outputs, read), strict=True)} if read else {}
    return [results.get(t.number) for t in targets]


def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False) -> SymbolicTensor:
    """The product of matrices, or of the last two axes."""
    left, right = (v if isinstance(v, SymbolicTensor) else constant(v) for v in (a, b))
    left, right = left.transpose(-2, -1) if transpose_a else left, right.transpose(-2, -1) if transpose_b else right
    return call_function("matmul", left, right)


def _extremum(name: str, limit: str) -> Callable[[Any, Any], SymbolicTensor]:
    def compute(x: Any, y: Any) -> SymbolicTensor:
        for value, other in ((y, x), (x, y)):
            if isinstance(value, int | float) and isinstance(other, SymbolicTensor):
                return call_function("clamp", other, **{limit: value})
        return call_function(name, *(v if isinstance(v, SymbolicTensor) else constant(v) for v in (x, y)))

    compute.__doc__ = f"The {name} of each two elements, of symbols, arrays or numbers."
    return compute


maximum, minimum = _extremum("maximum", "min"), _extremum("minimum", "max")


def _reduction(name: str) -> Callable[..., SymbolicTensor]:
    def reduce(x: Any, axis: Any = None, keepdims: bool = False, keep_dims: bool = False) -> SymbolicTensor:
        axes = tuple(axis) if isinstance(axis, list | tuple) else axis
        return call_function(name, x, **({} if axis is None else {"dim": axes, "keepdim": keepdims or keep_dims}))

    reduce.__doc__ = f"PyTorch's {name} over axes: a number, a list, or None for all."
    return reduce


reduce_sum, reduce_mean = _reduction("sum"), _reduction("mean")
reduce_max, reduce_min = _reduction("amax"), _reduction("amin")


def same_function(name: str) -> Callable[..., SymbolicTensor]:
    def function(*args: Any) -> SymbolicTensor:
        return call_function(name, *args)

    function.__doc__ = f"PyTorch's `{name}` of symbols."
    return function


add, subtract, multiply, divide, negative = map(same_function, ("add", "sub", "mul", "div", "neg"))
square, sqrt, exp, log, abs, pow = map(same_function, ("square", "sqrt", "exp", "log", "abs", "pow"))
tanh, sigmoid, equal, where, reshape = map(same_function, ("tanh", "sigmoid", "eq", "where", "reshape"))


def argmax(x: Any, axis: int = 0) -> SymbolicTensor:
    """The place of the largest element along an axis."""
    return call_function("argmax", x, dim=axis)


def concat(values: Sequence[Any], axis: int) -> SymbolicTensor:
    """Symbols one behind the other along an axis."""
    return SymbolicTensor.call_function("cat", (list(values),), {"dim": axis})


def cast(x: Any, dtype: Any) -> SymbolicTensor:
    """A symbol in another element type."""
    return call_function("as_tensor", x, dtype=as_dtype(dtype))


def assign(ref: Any, value: Any) -> SymbolicTensor:
    """The assignment of a value to a variable."""
    return ref.assign(value)


def device(name: str) -> Device:
    """The scope ``with tf.device("/gpu:0"):``, whose symbols and variables are on that device."""
    match = re.fullmatch(r"/?(?:device:)?(cpu|gpu)(?::(\d+))?", name, re.IGNORECASE)
    if match is None:
        raise UsageError(f"device: expected '/cpu:0' or '/gpu:N', got {name!r:.60}")
    return Device("cpu") if match[1].lower() == "cpu" else Device("cuda", int(match[2] or 0))
