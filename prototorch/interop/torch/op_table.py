"""Our ops in PyTorch: for layers that no module stands for, which are written as what their `call` records.

An entry is a function ``(t, export, *inputs)`` of tensors or of `SourceExpression`s (see `TorchLayer`); ``export`` has
the op's attributes and shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from prototorch.graph.ir import Node
from prototorch.interop.symbolic_batch import BatchMultiple, Dim, Recording
from prototorch.ops.reduce import normalize_axes

__all__ = ["TorchOpExport", "find_op", "has_op"]

OpFunction = Callable[..., Any]
_OPS: dict[str, OpFunction] = {}


@dataclass(frozen=True)
class TorchOpExport:
    """An op where it stands. batch_size: gives the batch size, for shapes that follow it."""

    node: Node
    recording: Recording
    batch_size: Callable[[], Any] | None = None

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.recording.attributes(self.node).get(name, default)

    def dims(self, index: int = 0) -> tuple[Dim, ...]:
        """The sizes of an input, the batch's included."""
        return self.recording.dims(self.node.inputs[index])

    @property
    def output_dims(self) -> tuple[Dim, ...]:
        """The shape of output 0."""
        return self.recording.dims(self.node.outputs[0])

    def shape(self, dims: Sequence[Dim]) -> tuple[Any, ...]:
        """A shape to reshape to: one size that follows the batch is left to be found."""
        if sum(isinstance(n, BatchMultiple) for n in dims) == 1:
            return tuple(-1 if isinstance(n, BatchMultiple) else n for n in dims)
        return self.sizes(dims)

    def sizes(self, dims: Sequence[Dim]) -> tuple[Any, ...]:
        """A shape in integers and the batch size."""
        return tuple(self._size(n) for n in dims)

    def _size(self, n: Dim) -> Any:
        if not isinstance(n, BatchMultiple):
            return n
        assert self.batch_size is not None
        return self.batch_size() if n.factor == 1 else self.batch_size() * n.factor


def has_op(name: str) -> bool:
    """Whether an op is in the table."""
    return name in _OPS


def find_op(name: str) -> OpFunction:
    """The function of an op. KeyError."""
    return _OPS[name]


def _op(*names: str) -> Callable[[OpFunction], OpFunction]:
    def register(function: OpFunction) -> OpFunction:
        _OPS.update(dict.fromkeys(names, function))
        return function

    return register


# ---------------------------------------------------------------- elementwise

_OPS |= {
    "add": lambda t, s, a, b: a + b,
    "subtract": lambda t, s, a, b: a - b,
    "multiply": lambda t, s, a, b: a * b,
    "divide": lambda t, s, a, b: a / b,
    "floor_divide": lambda t, s, a, b: a // b,
    "remainder": lambda t, s, a, b: a % b,
    "power": lambda t, s, a, b: a**b,
    "negative": lambda t, s, x: -x,
    "square": lambda t, s, x: x.square(),
    "less": lambda t, s, a, b: a < b,
    "less_equal": lambda t, s, a, b: a <= b,
    "equal": lambda t, s, a, b: a == b,
    "not_equal": lambda t, s, a, b: a != b,
    "logical_and": lambda t, s, a, b: t.torch.logical_and(a, b),
    "logical_or": lambda t, s, a, b: t.torch.logical_or(a, b),
    "logical_not": lambda t, s, x: x.logical_not().to(_dtype(t, s.node.outputs[0].dtype)),
    "where": lambda t, s, c, a, b: t.torch.where(c, a, b),
    "cast": lambda t, s, x: x.to(_dtype(t, s.get("dtype"))),
    "stop_gradient": lambda t, s, x: x.detach(),
    "relu": lambda t, s, x: t.F.relu(x),
    "relu6": lambda t, s, x: t.F.relu6(x),
    "leaky_relu": lambda t, s, x: t.F.leaky_relu(x, s.get("negative_slope", 0.2)),
    "elu": lambda t, s, x: t.F.elu(x, s.get("alpha", 1.0)),
    "selu": lambda t, s, x: t.F.selu(x),
    "gelu": lambda t, s, x: t.F.gelu(x, **({"approximate": "tanh"} if s.get("approximate") else {})),
    "silu": lambda t, s, x: t.F.silu(x),
    "mish": lambda t, s, x: t.F.mish(x),
    "softplus": lambda t, s, x: t.F.softplus(x),
    "softsign": lambda t, s, x: t.F.softsign(x),
    "log_sigmoid": lambda t, s, x: t.F.logsigmoid(x),
    "hard_sigmoid": lambda t, s, x: t.F.hardsigmoid(x),
    "hard_swish": lambda t, s, x: t.F.hardswish(x),
    "prelu": lambda t, s, x, alpha: t.torch.where(x > 0, x, alpha * x),
    "is_finite": lambda t, s, x: x.isfinite(),
}  # fmt: skip

for _name in (
    "exp",
    "expm1",
    "log",
    "log1p",
    "sqrt",
    "rsqrt",
    "abs",
    "sign",
    "floor",
    "ceil",
    "round",
    "tanh",
    "sin",
    "cos",
    "erf",
    "sigmoid",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "log2",
    "log10",
    "exp2",
    "trunc",
    "isnan",
    "isinf",
    "signbit",
    "lgamma",
    "digamma",
    "erfc",
    "erfinv",
    "atan2",
    "hypot",
    "logaddexp",
    "copysign",
    "nextafter",
    "fmod",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_not",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "inverse",
):
    _OPS[_name] = lambda t, s, *xs, _name=_name: getattr(t.torch, _name)(*xs)


@_op("maximum", "minimum")
def _extremum(t: Any, export: TorchOpExport, a: Any, b: Any) -> Any:
    name = export.node.op.name
    if isinstance(a, int | float):
        a, b = b, a
    if isinstance(b, int | float):
        return a.clamp(**{"min" if name == "maximum" else "max": b})
    return getattr(t.torch, name)(a, b)


def _dtype(t: Any, name: str) -> Any:
    return getattr(t.torch, name)


@_op("full")
def _full(t: Any, export: TorchOpExport) -> Any:
    dtype = _dtype(t, export.get("dtype", "float32"))
    return t.torch.full(export.sizes(export.get("shape")), export.get("value"), dtype=dtype, device=t.device())


# ---------------------------------------------------------------- shapes, lookups


@_op("reshape")
def _reshape(t: Any, export: TorchOpExport, x: Any) -> Any:
    return x.reshape(*export.shape(export.output_dims))


@_op("transpose")
def _transpose(t: Any, export: TorchOpExport, x: Any) -> Any:
    return x.permute(*export.get("order"))


@_op("concat")
def _concat(t: Any, export: TorchOpExport, *xs: Any) -> Any:
    return t.torch.cat(list(xs), export.get("axis"))


@_op("slice")
def _slice(t: Any, export: TorchOpExport, x: Any) -> Any:
    keys: list[Any] = []
    for n, start, stop, step in zip(export.dims(), *(export.get(k) for k in ("start", "stop", "step")), strict=True):
        if start == 0 and stop == n and step == 1:
            keys.append(slice(None))
        else:
            keys.append(slice(start or None, None if stop == n else stop, None if step == 1 else step))
    while keys[-1] == slice(None):
        keys.pop()
    return x[tuple(keys)]


@_op("flip")
def _flip(t: Any, export: TorchOpExport, x: Any) -> Any:
    axis = export.get("axis")
    return x.flip(*((axis,) if isinstance(axis, int) else axis))


@_op("pad")
def _pad(t: Any, export: TorchOpExport, x: Any) -> Any:
    pads, mode, value = list(export.get("pads")), export.get("mode", "constant"), export.get("value", 0.0)
    while pads and tuple(pads[0]) == (0, 0):
        pads.pop(0)
    flat = [n for pair in reversed(pads) for n in pair]
    if mode == "constant":
        return t.F.pad(x, flat, value=value) if value else t.F.pad(x, flat)
    return t.F.pad(x, flat, mode={"edge": "replicate", "wrap": "circular"}.get(mode, mode))


@_op("broadcast_to")
def _broadcast_to(t: Any, export: TorchOpExport, x: Any) -> Any:
    dims, out = export.dims(), export.output_dims
    lead = (None,) * (len(out) - len(dims))
    sizes = [-1 if n == m else k for n, m, k in zip(lead + tuple(dims), out, export.sizes(out), strict=True)]
    return x.expand(*sizes)


@_op("take")
def _take(t: Any, export: TorchOpExport, table: Any, indices: Any) -> Any:
    if len(export.dims()) != 2:
        return table[indices.long()]
    return t.F.embedding(indices.long(), table)


@_op("static_gather")
def _static_gather(t: Any, export: TorchOpExport, x: Any) -> Any:
    axis = export.get("axis") % len(export.dims())
    return x[(*[slice(None)] * axis, list(export.get("indices")))]


@_op("take_along_axis")
def _take_along_axis(t: Any, export: TorchOpExport, x: Any, indices: Any) -> Any:
    return x.gather(-1, indices.long())


@_op("one_hot")
def _one_hot(t: Any, export: TorchOpExport, x: Any) -> Any:
    positions = t.torch.arange(export.get("classes"), device=t.device())
    return (x.unsqueeze(-1) == positions).to(_dtype(t, export.get("dtype", "float32")))


@_op("top_k")
def _top_k(t: Any, export: TorchOpExport, x: Any) -> Any:
    values, indices = t.unpack(x.topk(export.get("k")), 2)
    return values, indices.int()


@_op("advanced_index")
def _advanced_index(t: Any, export: TorchOpExport, x: Any, *indices: Any) -> Any:
    return x[_keys(export, indices)]


def _keys(export: TorchOpExport, indices: Sequence[Any]) -> tuple[Any, ...]:
    by_axis = dict(zip(export.get("axes"), indices, strict=True))
    return tuple(by_axis[a].long() if a in by_axis else slice(None) for a in range(max(by_axis) + 1))


@_op("sort")
def _sort(t: Any, export: TorchOpExport, x: Any) -> Any:
    return t.unpack(x.sort(-1, bool(export.get("descending")), stable=True), 2)


@_op("searchsorted")
def _searchsorted(t: Any, export: TorchOpExport, elements: Any, values: Any) -> Any:
    return t.torch.searchsorted(elements, values, side=export.get("side", "left"))


@_op("cummax", "cummin")
def _running_extremum(t: Any, export: TorchOpExport, x: Any) -> Any:
    return t.unpack(getattr(x, export.node.op.name)(-1), 2)


# ---------------------------------------------------------------- reductions

_REDUCTIONS = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin", "any": "any", "all": "all"}


@_op(*_REDUCTIONS)
def _reduction(t: Any, export: TorchOpExport, x: Any) -> Any:
    axes = normalize_axes(export.get("axis"), len(export.dims()))
    keep = {"keepdim": True} if export.get("keepdims") else {}
    return getattr(x, _REDUCTIONS[export.node.op.name])(axes if len(axes) > 1 else axes[0], **keep)


@_op("prod")
def _prod(t: Any, export: TorchOpExport, x: Any) -> Any:
    for axis in reversed(normalize_axes(export.get("axis"), len(export.dims()))):
        x = x.prod(axis, keepdim=bool(export.get("keepdims")))
    return x


@_op("argmax", "argmin")
def _arg_extremum(t: Any, export: TorchOpExport, x: Any) -> Any:
    return getattr(x, export.node.op.name)(export.get("axis")).int()


@_op("cumsum")
def _cumsum(t: Any, export: TorchOpExport, x: Any) -> Any:
    axis = export.get("axis")
    return x.flip(axis).cumsum(axis).flip(axis) if export.get("reverse") else x.cumsum(axis)


@_op("cumprod", "logcumsumexp")
def _scan(t: Any, export: TorchOpExport, x: Any) -> Any:
    return getattr(x, export.node.op.name)(export.get("axis"))


@_op("softmax", "log_softmax")
def _softmax(t: Any, export: TorchOpExport, x: Any) -> Any:
    return getattr(t.torch, export.node.op.name)(x, export.get("axis", -1))


# ---------------------------------------------------------------- products


@_op("matmul")
def _matmul(t: Any, export: TorchOpExport, a: Any, b: Any) -> Any:
    a = a.mT if export.get("transpose_a") else a
    return a @ (b.mT if export.get("transpose_b") else b)


@_op("solve", "cholesky")
def _linear_algebra(t: Any, export: TorchOpExport, *matrices: Any) -> Any:
    return getattr(t.torch.linalg, export.node.op.name)(*matrices)


@_op("conv")
def _conv(t: Any, export: TorchOpExport, x: Any, w: Any) -> Any:
    pads = export.get("pads")
    if all(a == b for a, b in pads):
        inside = tuple(a for a, _ in pads)
    else:
        inside = (0,) * len(pads)
        x = t.F.pad(x, [n for pair in reversed(pads) for n in pair])
    function = getattr(t.F, f"conv{len(pads)}d")
    return function(x, w, None, export.get("strides"), inside, export.get("dilation"), export.get("groups", 1))


@_op("conv_input_grad")
def _conv_transpose(t: Any, export: TorchOpExport, x: Any, w: Any) -> Any:
    """The full output, of which the wanted part is cut out; zeros where it reaches beyond."""
    size, pads, rank = export.get("size"), export.get("pads"), len(export.get("pads"))
    function = getattr(t.F, f"conv_transpose{rank}d")
    y = function(x, w, None, export.get("strides"), 0, 0, export.get("groups", 1), export.get("dilation"))
    steps, kernel = export.dims(0)[2:], export.dims(1)[2:]
    sizes = zip(steps, export.get("strides"), kernel, export.get("dilation"), strict=True)
    whole = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in sizes]  # type: ignore[operator]
    more = [max(a + n - m, 0) for n, (a, _), m in zip(size, pads, whole, strict=True)]
    if any(more):
        y = t.F.pad(y, [n for extra in reversed(more) for n in (0, extra)])
    return y[(..., *(slice(a, a + n) for n, (a, _) in zip(size, pads, strict=True)))]


@_op("max_pool")
def _max_pool(t: Any, export: TorchOpExport, x: Any) -> Any:
    pads = [*_pool_pads(export)]
    x = t.F.pad(x, [n for pair in reversed(pads) for n in pair], value=float("-inf")) if any(map(any, pads)) else x
    return (getattr(t.F, f"max_pool{len(pads)}d")(x, export.get("kernel"), export.get("strides")), None)


@_op("avg_pool")
def _avg_pool(t: Any, export: TorchOpExport, x: Any) -> Any:
    """The sum of each window over the number of the elements that count in it, which is the sum of a mask of them."""
    pads, declared = [*_pool_pads(export)], export.get("pads")
    counts = declared if export.get("include_pad") else ((0, 0),) * len(pads)
    flat = [n for pair in reversed(pads) for n in pair]
    ones = t.torch.ones((1, 1, *export.dims()[2:]), dtype=x.dtype, device=t.device())
    rest = [(a - c, b - d) for (a, b), (c, d) in zip(pads, counts, strict=True)]
    if any(map(any, counts)):
        ones = t.F.pad(ones, [n for pair in reversed(counts) for n in pair], value=1.0)
    ones = t.F.pad(ones, [n for pair in reversed(rest) for n in pair]) if any(map(any, rest)) else ones
    x = t.F.pad(x, flat) if any(flat) else x
    pool = getattr(t.F, f"avg_pool{len(pads)}d")
    return pool(x, export.get("kernel"), export.get("strides")) / pool(
        ones, export.get("kernel"), export.get("strides")
    )


def _pool_pads(export: TorchOpExport) -> Sequence[tuple[int, int]]:
    """The padding with what the last window reaches beyond it, so that whole windows fit."""
    windows = (export.get(name) for name in ("kernel", "strides", "pads"))
    sizes = zip(export.dims()[2:], export.output_dims[2:], *windows, strict=True)
    return [(a, max(b, (m - 1) * s + k - n - a)) for n, m, k, s, (a, b) in sizes]
