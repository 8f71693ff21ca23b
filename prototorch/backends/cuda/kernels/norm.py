"""Batch normalisation. Statistics are read once and taken together in a fixed order; sums are in float32
(float64 for float64), whatever the type of the elements."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from prototorch.backends.core import channels_last
from prototorch.backends.cuda.kernels.launch import (
    ITEM_BYTES,
    In,
    Launches,
    Out,
    Space,
    aligned,
    block_launch,
    c_type,
    cuda_kernel,
    index,
    launch,
    pack_of,
    source,
    threads_for,
)  # fmt: skip
from prototorch.backends.cuda.kernels.norm_sweep import sweep_launch, sweep_text
from prototorch.backends.cuda.kernels.reduce import ENOUGH
from prototorch.ops.reduce import axes
from prototorch.spec import Spec

Specs = tuple[Spec, ...]
#: the slopes of activations, from what they were given: 1 where this holds, else 0
SLOPES = {"relu_grad": "(y > 0)", "relu6_grad": "(y > 0 && y < 6)"}


class Channels:
    """How a batch norm's input lies: [outer, channels, inner], and how its channels are cut into chunks.

    x, w, v, made: the input, a learned vector, given statistics, statistics that are written. beside: other arrays that
    are read and written along with x. slope: in the gradient, where the activation that followed lets it through.
    """

    def __init__(self, x: Spec, w: Spec, v: Spec, attrs: dict[str, Any], made: Spec | None = None,
                 beside: Specs = (), slope: str | None = None):  # fmt: skip
        (axis,) = axes(attrs.get("axis", 1), x.ndim)
        last = x.layout is not None
        self.fits = x.is_float and not (last and axis != 1)
        self.channels = x.shape[axis]
        self.inner = 1 if last else prod(x.shape[axis + 1 :])
        self.rows = x.size // self.channels
        self.x, self.wide = x, "float64" if x.dtype == "float64" else "float32"
        self.number = np.float64 if self.wide == "float64" else np.float32
        self.eps = self.number(attrs["eps"])
        run = self.channels if self.inner == 1 else self.inner
        self.pack = min(pack_of(s, run) for s in (x, *beside))
        self.last = self.inner == 1
        names: dict[str, str | int] = {"X": c_type(x), "W": c_type(w), "V": c_type(v), "M": c_type(made or v)}
        names.update({"C": self.channels, "INNER": self.inner})
        names["sqrt_of"] = "sqrt" if self.wide == "float64" else "sqrtf"
        if slope is not None:
            names["SLOPE"] = slope
        self.text = source("norm", x.size, **names, PACK=self.pack)
        if self.last:
            chunks = min(-(-ENOUGH // (self.channels // self.pack)), -(-self.rows // 8), 4096)
        else:
            chunks = min(-(-ENOUGH // (self.channels * 256)), -(-self.rows // 256), 256)
        self.chunk = -(-self.rows // max(chunks, 1))
        self.chunks = -(-self.rows // self.chunk)
        self.part = aligned(2 * self.chunks * self.channels * ITEM_BYTES[self.wide])
        self.own = aligned(self.channels * ITEM_BYTES[self.wide])

    #: what the sweep of the gradient needs of a channel
    applied = (("a", "own[c]"), ("b", "(own + C)[c]"), ("d", "(own + 2 * C)[c]"), ("mean", "(own + 3 * C)[c]"))

    def count(self, *values: int) -> tuple[Any, ...]:
        """Numbers of the kernels' index type."""
        return tuple(index(v, self.x.size) for v in values)

    def partial(self, name: str, *args: Any) -> Any:
        """The launch that makes the partial sums."""
        given = (*self.count(self.rows, self.chunks, self.chunk), *args)
        if self.last:
            return launch(self.text, f"{name}_last", self.chunks * self.channels // self.pack, *given, block=128)
        block = threads_for(self.chunk)
        return block_launch(self.text, f"{name}_first", self.chunks * self.channels, *given, block=block)

    def end(self, name: str, *args: Any) -> Any:
        """The launch that takes them together."""
        return block_launch(self.text, name, self.channels, *args, block=threads_for(self.chunks))

    def statistics(self, x: Any, gamma: Any, mean: Any, variance: Any) -> tuple[Any, ...]:
        """The launches that make the statistics, there and, as the sweep wants them, in the workspace."""
        sizes, own = self.count(self.rows, self.chunks, self.chunk), (Space(self.part), Space(self.part + self.own))
        end = self.end("stats_end", *sizes, Space(), mean, variance, gamma, self.eps, *own)
        return self.partial("stats", x, Space()), end

    def each(self, name: str, *args: Any) -> Any:
        """The launch over all elements."""
        return sweep_launch(self.text, name, self.x.size, self.channels, self.pack, self.last, *args)


#: the sweep's arguments for what a batch norm is given, and what it needs of a channel: after statistics of its own,
#: and with given ones
OPERANDS = ("const W* gamma", "const W* beta", "const V* mean", "const V* var", "A eps")
OWN = (("mean", "(A)get(mean[c])"), ("scale", "(A)get(var[c])"), ("shift", "(A)get(beta[c])"))
GIVEN = (OWN[0], ("scale", "root((A)get(var[c]) + eps) * (A)get(gamma[c])"), OWN[2])
NORMAL = "(seen - mean) * scale + shift"
#: the gradient of x from that of y
APPLIED = "a * ({} - b - (seen - mean) * d)"


def _alike(*specs: Spec) -> bool:
    return len({(s.dtype, s.layout) for s in specs}) == 1


@cuda_kernel("batch_norm", layouts=True)
def batch_norm(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Launches | None:
    """With the batch's own statistics."""
    x, gamma, beta = ins
    if not _alike(x, outs[0]) or gamma.dtype != beta.dtype or outs[1].dtype != outs[2].dtype:
        return None
    c = Channels(x, gamma, Spec((), "float64" if x.dtype == "float64" else "float32"), attrs, outs[1])
    if not c.fits:
        return None
    c.text += sweep_text("normalise", OPERANDS, OWN, [("seen", x)], outs[:1], [], [NORMAL], c.last)
    vectors = In(1), In(2), Space(c.part), Space(c.part + c.own)
    return Launches(
        *c.statistics(In(0), In(1), Out(1), Out(2)),
        c.each("normalise", *vectors, c.eps, In(0), Out(0)),
        space=c.part + 2 * c.own,
    )


@cuda_kernel("batch_norm_grad", layouts=True)
def batch_norm_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Launches | None:
    """Gradients of x, gamma and beta."""
    g, x, gamma, mean, var = ins
    return _gradient(g, x, gamma, None, mean, var, outs, attrs)


@cuda_kernel("batch_norm_slope_grad", layouts=True)
def batch_norm_slope_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Launches | None:
    """The same from the gradient of the activation that followed."""
    g, x, gamma, beta, mean, var = ins
    return None if beta.dtype != gamma.dtype else _gradient(g, x, gamma, beta, mean, var, outs, attrs)


def _gradient(g: Spec, x: Spec, gamma: Spec, beta: Spec | None, mean: Spec, var: Spec, outs: Specs,
              attrs: dict[str, Any]) -> Launches | None:  # fmt: skip
    if not _alike(g, x, outs[0]) or mean.dtype != var.dtype or any(o.dtype != gamma.dtype for o in outs[1:]):
        return None
    c = Channels(x, gamma, mean, attrs, slope=SLOPES.get(attrs.get("slope", "")))
    if not c.fits:
        return None
    sloped = beta is not None
    statistics = In(3 + sloped), In(4 + sloped)
    vectors = [In(2), In(3)] if sloped else []
    own, given, kept = [*c.applied], ["const A* own"], "g"
    if sloped:
        given.append("const W* beta")
        own.append(("shift", "(A)get(beta[c])"))
        kept = "kept(g, (seen - mean) * a + shift)"
    c.text += sweep_text("grads_apply", given, own, [("g", g), ("seen", x)], outs[:1], [], [APPLIED.format(kept)],
                         c.last)  # fmt: skip
    made, by = Space(c.part), c.number(1 / c.rows)
    return Launches(
        c.partial("grads", In(0), In(1), *statistics, *vectors, c.eps, Space()),
        c.end("grads_end", *c.count(c.chunks), Space(), In(2), *statistics, Out(1), Out(2), made, c.eps, by),
        c.each("grads_apply", made, *vectors[1:], In(0), In(1), Out(0)),
        space=c.part + aligned(4 * c.channels * ITEM_BYTES[c.wide]),
    )


@cuda_kernel("batch_norm_inference", layouts=True)
def batch_norm_inference(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Launches | None:
    """With given statistics."""
    x, gamma, beta, mean, var = ins
    if not _alike(x, outs[0]) or gamma.dtype != beta.dtype or mean.dtype != var.dtype:
        return None
    c = Channels(x, gamma, mean, attrs)
    if not c.fits:
        return None
    c.text += sweep_text("normalise", OPERANDS, GIVEN, [("seen", x)], outs, [], [NORMAL], c.last)
    return Launches(c.each("normalise", *map(In, range(1, 5)), c.eps, In(0), Out(0)))


channels_last("cuda", "follows", "batch_norm", "batch_norm_inference", ins=(0,), outs=(0,))
channels_last("cuda", "follows", "batch_norm_grad", "batch_norm_slope_grad", ins=(0, 1), outs=(0,))
