"""PyTorch's random tensors: by counter-based Philox from a generator's seed; the numbers are not PyTorch's own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.eager.dims import as_int, as_shape
from prototorch.eager.dtype import as_dtype, get_default_dtype
from prototorch.eager.functions.filling import check_creation, new_tensor_options
from prototorch.eager.generator import keys_of
from prototorch.eager.grad_mode import no_grad
from prototorch.eager.in_place import assign
from prototorch.eager.interpreter import interpreter_for
from prototorch.eager.key_tensor import key_tensor
from prototorch.eager.operands import cast_to, write_out
from prototorch.eager.registry import tensor_function, tensor_method
from prototorch.eager.scalars import check_number, element_range
from prototorch.eager.value_bounds import bounded_values
from prototorch.errors import ShapeError, UsageError

__all__ = ["bernoulli", "multinomial", "normal", "rand", "randint", "randn", "randperm", "uniform_elements"]

_FLOATS = ("float16", "bfloat16", "float32", "float64")


def _key(generator: Any, interpreter: Any) -> Any:
    return key_tensor(keys_of(generator), interpreter)


def uniform_elements(
    shape: tuple[int, ...], low: float, high: float, dtype: Any, interpreter: Any, generator: Any = None
) -> Any:
    """Uniform numbers in [low, high)."""
    wide = str(dtype) if str(dtype) in ("float32", "float64") else "float32"
    y = ops.random_uniform(
        _key(generator, interpreter), site=0, shape=shape, low=float(low), high=float(high), dtype=wide
    )
    return cast_to(y, dtype)


def normal_elements(shape: tuple[int, ...], dtype: Any, interpreter: Any, generator: Any = None) -> Any:
    """Normal numbers of mean 0 and standard deviation 1."""
    wide = str(dtype) if str(dtype) in ("float32", "float64") else "float32"
    return cast_to(ops.random_normal(_key(generator, interpreter), site=0, shape=shape, dtype=wide), dtype)


def _float_dtype(name: str, dtype: Any) -> Any:
    target = get_default_dtype() if dtype is None else as_dtype(dtype)
    if str(target) not in _FLOATS:
        raise UsageError(f"{name}: expected a floating-point type, got {target!r}")
    return target


def _finish(y: Any, name: str, out: Any, requires_grad: bool) -> Any:
    if out is not None:
        return write_out(y, out, name)
    if requires_grad:
        y.requires_grad = True
    return y


def _define(name: str, elements: Any, doc: str) -> Any:
    def function(
        *size: Any,
        generator: Any = None,
        out: Any = None,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        **options: Any,
    ) -> Any:
        size = (options.pop("size"),) if "size" in options else size
        check_creation(name, options)
        target = _float_dtype(name, dtype if dtype is not None or out is None else out.dtype)
        y = elements(as_shape(size, name), target, interpreter_for(device), generator)
        return _finish(y, name, out, requires_grad)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""A tensor of {doc} of a shape, given by its sizes or as one sequence (torch.{name}).

    dtype: default float32 (`set_default_dtype`). generator: default that of `manual_seed`.
    """

    def like(
        input: Any,
        *,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        generator: Any = None,
        **options: Any,
    ) -> Any:
        check_creation(f"{name}_like", options)
        target, place = new_tensor_options(input, dtype, device)
        y = elements(tuple(input.shape), _float_dtype(f"{name}_like", target), interpreter_for(place), generator)
        return _finish(y, f"{name}_like", None, requires_grad)

    like.__name__ = like.__qualname__ = f"{name}_like"
    like.__doc__ = f"A tensor of {doc}, of the shape, element type and device of another (torch.{name}_like)."
    tensor_function(like, method=False)
    return tensor_function(function, method=False)


rand = _define(
    "rand", lambda shape, dtype, i, g: uniform_elements(shape, 0, 1, dtype, i, g), "uniform numbers in [0, 1)"
)
randn = _define("randn", normal_elements, "normal numbers of mean 0 and standard deviation 1")


def _integers(name: str, bounds: tuple[Any, ...], shape: tuple[int, ...], generator: Any, dtype: str) -> np.ndarray:
    """Integers in [low, high), all of which are elements of ``dtype``."""
    low, high = (0, bounds[0]) if len(bounds) == 1 else bounds
    low, high = as_int(low, name, "low"), as_int(high, name, "high")
    if low >= high:
        raise UsageError(f"{name}: expected low < high, got {low} and {high}")
    smallest, largest = element_range(dtype)
    if low < smallest or high - 1 > largest:
        raise UsageError(
            f"{name}: integers in [{low}, {high}) are outside the range of {dtype} elements, {smallest} to {largest}"
        )
    return keys_of(generator).next_generator().integers(low, high, shape, dtype="int64")


@tensor_function(method=False)
def randint(
    *args: Any,
    size: Any = None,
    low: Any = 0,
    high: Any = None,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Any:
    """Random integers in [low, high) of a shape: ``randint(high, size)`` or ``randint(low, high, size)``
    (torch.randint). dtype: default int64."""
    check_creation("randint", options)
    arguments = list(args)
    if size is None and arguments and isinstance(arguments[-1], tuple | list):
        size = arguments.pop()
    bounds = tuple(arguments) if arguments else ((low, high) if high is not None else ())
    if arguments and high is not None:
        bounds = (*arguments, high)
    if size is None or not 1 <= len(bounds) <= 2:
        raise UsageError(
            "randint: expected randint(high, size) or randint(low, high, size), with a size such as (2, 3)"
        )
    target = as_dtype(dtype or (out.dtype if out is not None else "int64"))
    array = _integers("randint", bounds, as_shape((size,), "randint"), generator, target)
    y = cast_to(interpreter_for(device).constant(array), target)
    return _finish(y, "randint", out, requires_grad)


@tensor_function(method=False)
def randint_like(
    input: Any,
    *bounds: Any,
    low: Any = 0,
    high: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Any:
    """Random integers in [low, high), of the shape, element type and device of another tensor (torch.randint_like)."""
    target, place = new_tensor_options(input, dtype, device)
    limits = (*bounds, high) if bounds and high is not None else bounds or (low, high)
    return randint(*limits, tuple(input.shape), dtype=target, device=place, requires_grad=requires_grad, **options)


@tensor_function(method=False)
def randperm(
    n: int,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Any:
    """The integers below n in a random order (torch.randperm). dtype: default int64."""
    check_creation("randperm", options)
    count = as_int(n, "randperm", "n")
    if count < 0:
        raise UsageError(f"randperm: n must not be negative, got {count}")
    if count:
        check_number(count - 1, dtype or "int64", "randperm")
    array = keys_of(generator).next_generator().permutation(count)
    y = cast_to(interpreter_for(device).constant(array), dtype or (out.dtype if out is not None else "int64"))
    return _finish(y, "randperm", out, requires_grad)


@tensor_function
def bernoulli(input: Any, p: float | None = None, *, generator: Any = None, out: Any = None) -> Any:
    """1 with the probability that each element says (or ``p``), else 0 (torch.bernoulli). No gradient passes."""
    with no_grad():
        u = uniform_elements(tuple(input.shape), 0, 1, "float32", input.interpreter, generator)
        if p is None:
            if str(input.dtype) not in _FLOATS:
                raise UsageError(f"bernoulli: expected floating-point probabilities, got {input.dtype}")
            input = bounded_values(input, "bernoulli: probabilities must lie in [0, 1], got {}", 0, 1)
            chance = cast_to(input, "float32")
            y = ops.less(u, chance)
        else:
            y = ops.less(u, _probability("bernoulli", p))
        y = cast_to(y, input.dtype)
    return y if out is None else write_out(y, out, "bernoulli")


def _probability(name: str, p: Any) -> float:
    if not 0 <= p <= 1:
        raise UsageError(f"{name}: the probability must lie in [0, 1], got {p}")
    return float(p)


@tensor_function(method=False)
def normal(
    mean: Any,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Any:
    """Normal numbers of a mean and a standard deviation, numbers or tensors that broadcast; of two numbers with a
    ``size`` (torch.normal)."""
    check_creation("normal", options)
    tensors = [v for v in (mean, std) if hasattr(v, "interpreter")]
    if not tensors and size is None:
        raise UsageError("normal: two numbers need a size, such as normal(0.0, 1.0, (2, 3))")
    if not hasattr(std, "interpreter") and std < 0:
        raise UsageError(f"normal: std must not be negative, got {std}")
    if hasattr(std, "interpreter"):
        std = bounded_values(std, "normal: std must not have negative elements, got {}", 0)
    try:
        shape = np.broadcast_shapes(*(tuple(v.shape) for v in tensors)) if tensors else as_shape((size,), "normal")
    except ValueError:
        raise ShapeError(
            f"normal: the shapes of mean and std do not broadcast: {[list(v.shape) for v in tensors]}"
        ) from None
    target = _float_dtype("normal", tensors[0].dtype if tensors else dtype)
    interpreter = tensors[0].interpreter if tensors else interpreter_for(device)
    with no_grad():
        y = normal_elements(tuple(shape), target, interpreter, generator)
        y = y * (cast_to(std, target) if hasattr(std, "interpreter") else float(std))
        y = y + (cast_to(mean, target) if hasattr(mean, "interpreter") else float(mean))
    return _finish(y, "normal", out, requires_grad)


@tensor_function
def multinomial(
    input: Any, num_samples: int, replacement: bool = False, *, generator: Any = None, out: Any = None
) -> Any:
    """Indices drawn by weights [classes] or [rows, classes]: int64 [num_samples] or [rows, num_samples]
    (torch.multinomial). Without ``replacement`` no index is drawn twice.

    Raises UsageError for weights that are negative or not finite, for a row without a positive one, and for more
    samples than there are positive weights.
    """
    weights = input.numpy().astype("float64")
    count = as_int(num_samples, "multinomial", "num_samples")
    if weights.ndim not in (1, 2) or count < 1 or str(input.dtype) not in _FLOATS:
        raise UsageError(
            "multinomial: expected floating-point weights [classes] or [rows, classes] and at least one sample, got "
            f"{input.dtype}{list(input.shape)} and {count}"
        )
    rows = np.atleast_2d(weights)
    if not np.isfinite(rows).all() or (rows < 0).any() or (rows.sum(-1) <= 0).any():
        raise UsageError("multinomial: weights must be finite and not negative, with a positive one in each row")
    if not replacement and (np.count_nonzero(rows, axis=-1) < count).any():
        raise UsageError(f"multinomial: {count} samples without replacement need as many positive weights in each row")
    source = keys_of(generator).next_generator()
    if replacement:
        sums = np.cumsum(rows, axis=-1)
        draws = source.random((len(rows), count)) * sums[:, -1:]
        samples = np.stack([np.searchsorted(s, d, side="right") for s, d in zip(sums, draws, strict=True)])
        samples = np.minimum(samples, rows.shape[-1] - 1)
    else:  # the order of exponential variables divided by the weights
        with np.errstate(divide="ignore"):
            times = source.exponential(size=rows.shape) / rows
        samples = np.argsort(times, axis=-1)[:, :count]
    result = samples.reshape((count,) if weights.ndim == 1 else (len(rows), count)).astype("int64")
    y = interpreter_for(input.device).constant(result)
    return y if out is None else write_out(y, out, "multinomial")


# ---------------------------------------------------------------- in place


def _overwrite(self: Any, value: Any, name: str) -> Any:
    return assign(self, value, name)


@tensor_method
def uniform_(self: Any, from_: float = 0.0, to: float = 1.0, *, generator: Any = None, **options: Any) -> Any:
    """Overwrite the elements with uniform numbers in [from, to) (torch.Tensor.uniform_)."""
    low = options.pop("from", from_)
    if options:
        raise UsageError(f"uniform_: unknown argument {sorted(options)[0]!r}")
    if low > to:
        raise UsageError(f"uniform_: expected from <= to, got {low} and {to}")
    _float_dtype("uniform_", self.dtype)
    return _overwrite(
        self, uniform_elements(tuple(self.shape), low, to, self.dtype, self.interpreter, generator), "uniform_"
    )


@tensor_method
def normal_(self: Any, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Any:
    """Overwrite the elements with normal numbers (torch.Tensor.normal_)."""
    if std < 0:
        raise UsageError(f"normal_: std must not be negative, got {std}")
    _float_dtype("normal_", self.dtype)
    y = normal_elements(tuple(self.shape), self.dtype, self.interpreter, generator)
    return _overwrite(self, y * float(std) + float(mean), "normal_")


@tensor_method
def bernoulli_(self: Any, p: Any = 0.5, *, generator: Any = None) -> Any:
    """Overwrite the elements with 1 of probability ``p``, a number or a tensor, else 0 (torch.Tensor.bernoulli_)."""
    chance = cast_to(p, "float32") if hasattr(p, "interpreter") else _probability("bernoulli_", p)
    u = uniform_elements(tuple(self.shape), 0, 1, "float32", self.interpreter, generator)
    return _overwrite(self, ops.cast(ops.less(u, chance), dtype=str(self.dtype)), "bernoulli_")


@tensor_method
def exponential_(self: Any, lambd: float = 1.0, *, generator: Any = None) -> Any:
    """Overwrite the elements with exponentially distributed numbers of rate ``lambd`` (torch.Tensor.exponential_)."""
    if not lambd > 0:
        raise UsageError(f"exponential_: lambd must be positive, got {lambd}")
    _float_dtype("exponential_", self.dtype)
    u = uniform_elements(tuple(self.shape), 0, 1, "float64", self.interpreter, generator)
    return _overwrite(self, ops.log(1.0 - u) * (-1.0 / lambd), "exponential_")


@tensor_method
def random_(self: Any, from_: Any = None, to: Any = None, *, generator: Any = None, **options: Any) -> Any:
    """Overwrite the elements with random integers: in [from, to), below ``to``, or all that the element type can hold
    exactly (torch.Tensor.random_)."""
    from_ = options.pop("from", from_)
    if options:
        raise UsageError(f"random_: unknown argument {sorted(options)[0]!r}")
    if from_ is not None and to is None:
        from_, to = 0, from_
    if to is None:
        digits = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53, "bool": 1, "uint8": 8}.get(
            str(self.dtype)
        )
        from_, to = 0, 2 ** (digits or min(8 * self.dtype.itemsize - 1, 62))
    array = _integers("random_", (0 if from_ is None else from_, to), tuple(self.shape), generator, self.dtype)
    return _overwrite(self, self.interpreter.constant(array), "random_")


@tensor_method
def geometric_(self: Any, p: float, *, generator: Any = None) -> Any:
    """Overwrite the elements with the number of trials up to the first success of probability ``p``
    (torch.Tensor.geometric_)."""
    if not 0 < p < 1:
        raise UsageError(f"geometric_: the probability must lie in (0, 1), got {p}")
    u = uniform_elements(tuple(self.shape), 0, 1, "float64", self.interpreter, generator)
    return _overwrite(self, ops.maximum(ops.ceil(ops.log(1.0 - u) * (1 / math.log1p(-p))), 1.0), "geometric_")


@tensor_method
def log_normal_(self: Any, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Any:
    """Overwrite the elements with numbers whose logarithm is normal (torch.Tensor.log_normal_)."""
    if not std > 0:
        raise UsageError(f"log_normal_: std must be positive, got {std}")
    _float_dtype("log_normal_", self.dtype)
    y = normal_elements(tuple(self.shape), "float64", self.interpreter, generator)
    return _overwrite(self, ops.exp(y * float(std) + float(mean)), "log_normal_")


@tensor_method
def cauchy_(self: Any, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Any:
    """Overwrite the elements with numbers of a Cauchy distribution (torch.Tensor.cauchy_)."""
    if not sigma > 0:
        raise UsageError(f"cauchy_: sigma must be positive, got {sigma}")
    _float_dtype("cauchy_", self.dtype)
    u = uniform_elements(tuple(self.shape), 0, 1, "float64", self.interpreter, generator)
    return _overwrite(self, ops.tan((u - 0.5) * math.pi) * float(sigma) + float(median), "cauchy_")
