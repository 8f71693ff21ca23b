"""Batch normalization (Ioffe and Szegedy, 2015). Statistics are reduced in a fixed order; sums are in float32
(float64 for float64), whatever the dtype of the elements."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from prototorch.cuda.kernels.channelwise import channelwise_launch, channelwise_source
from prototorch.cuda.kernels.column_tiles import TARGET_BLOCKS, TARGET_BLOCKS_80_REGISTERS, ColumnTiling
from prototorch.cuda.kernels.launch import (
    BLOCK,
    ITEM_BYTES,
    InputArg,
    LaunchSequence,
    OutputArg,
    WorkspaceArg,
    align_bytes,
    block_size_for,
    c_type,
    cuda_kernel,
    index_scalar,
    kernel_source,
    per_block_launch,
    vector_width,
)
from prototorch.cuda.kernels.reduce import TARGET_THREADS
from prototorch.engine.backends.capabilities import register_channels_last
from prototorch.ops.reduce import normalize_axes
from prototorch.spec import Spec

__all__ = [
    "BATCH_STATISTICS",
    "GIVEN_STATISTICS",
    "INPUT_GRAD_EXPR",
    "NORMALIZE_EXPR",
    "NORM_PARAMS",
    "BatchNormGeometry",
]

Specs = tuple[Spec, ...]
#: the derivatives of activations as conditions on their input: the gradient passes where they hold, else it is 0
DERIVATIVE_MASKS = {"relu_grad": "(y > 0)", "relu6_grad": "(y > 0 && y < 6)"}


class BatchNormGeometry:
    """How a batch norm's input lies: [outer, channels, inner], and how its channels are cut into chunks.

    x, w, v: the input, a learned vector, statistics that are read. statistics: those that are written, by default as v.
    others: further arrays that are read and written along with x. activation_mask: C condition on y, under which the
    gradient passes through the activation that followed. target_blocks: see `ColumnTiling`.
    """

    def __init__(
        self,
        x: Spec,
        w: Spec,
        v: Spec,
        attrs: dict[str, Any],
        statistics: Spec | None = None,
        others: Specs = (),
        activation_mask: str | None = None,
        target_blocks: int = TARGET_BLOCKS,
    ):
        (axis,) = normalize_axes(attrs.get("axis", 1), x.ndim)
        last = x.layout is not None
        self.fits = x.is_float and not (last and axis != 1)
        self.channels = x.shape[axis]
        self.inner = 1 if last else prod(x.shape[axis + 1 :])
        self.rows = x.size // self.channels
        self.x, self.acc_dtype = x, "float64" if x.dtype == "float64" else "float32"
        self.acc_type = np.float64 if self.acc_dtype == "float64" else np.float32
        self.eps = self.acc_type(attrs["eps"])
        run = self.channels if self.inner == 1 else self.inner
        self.pack = min(vector_width(s, run) for s in (x, *others))
        self.channels_last = self.inner == 1
        names: dict[str, str | int] = {"X": c_type(x), "W": c_type(w), "V": c_type(v), "M": c_type(statistics or v)}
        names.update({"C": self.channels, "INNER": self.inner})
        names["sqrt_of"] = "sqrt" if self.acc_dtype == "float64" else "sqrtf"
        if activation_mask is not None:
            names["ACTIVATION_MASK"] = activation_mask
        self.tiles = ColumnTiling.of(self.rows, self.channels, self.pack if self.channels_last else 1, target_blocks)
        names["TILE_VECTORS"] = self.tiles.vectors
        self.source = kernel_source("batch_norm", x.size, **names, PACK=self.pack)
        if self.channels_last:
            self.chunk, self.chunks = self.tiles.chunk, self.tiles.chunks
        else:
            chunks = min(-(-TARGET_THREADS // (self.channels * 256)), -(-self.rows // 256), 1024)
            self.chunk = -(-self.rows // max(chunks, 1))
            self.chunks = -(-self.rows // self.chunk)
        self.partial_bytes = align_bytes(2 * self.chunks * self.channels * ITEM_BYTES[self.acc_dtype])
        self.vector_bytes = align_bytes(self.channels * ITEM_BYTES[self.acc_dtype])

    #: what the sweep of the gradient needs of a channel
    gradient_vectors = (("a", "own[c]"), ("b", "(own + C)[c]"), ("d", "(own + 2 * C)[c]"), ("mean", "(own + 3 * C)[c]"))

    def index_args(self, *values: int) -> tuple[Any, ...]:
        """Numbers of the kernels' index type."""
        return tuple(index_scalar(v, self.x.size) for v in values)

    def partial_launch(self, name: str, *args: Any) -> Any:
        """The launch that makes the partial sums."""
        arguments = (*self.index_args(self.rows, self.chunks, self.chunk), *args)
        if self.channels_last:
            return per_block_launch(self.source, f"{name}_last", self.tiles.blocks, *arguments, block=BLOCK)
        block = block_size_for(self.chunk)
        return per_block_launch(self.source, f"{name}_first", self.chunks * self.channels, *arguments, block=block)

    def final_launch(self, name: str, *args: Any) -> Any:
        """The launch that takes them together."""
        return per_block_launch(self.source, name, self.channels, *args, block=block_size_for(self.chunks))

    def statistics_launches(self, x: Any, gamma: Any, mean: Any, variance: Any) -> tuple[Any, ...]:
        """The launches that make the statistics, there and, as the sweep wants them, in the workspace."""
        sizes, vectors = (
            self.index_args(self.rows, self.chunks, self.chunk),
            (WorkspaceArg(self.partial_bytes), WorkspaceArg(self.partial_bytes + self.vector_bytes)),
        )
        end = self.final_launch("stats_end", *sizes, WorkspaceArg(), mean, variance, gamma, self.eps, *vectors)
        return self.partial_launch("stats", x, WorkspaceArg()), end

    def elements_launch(self, name: str, *args: Any) -> Any:
        """The launch over all elements."""
        return channelwise_launch(self.source, name, self.x.size, self.channels, self.pack, self.channels_last, *args)


#: the sweep's arguments for what a batch norm is given, and what it needs of a channel: after statistics of its own,
#: and with given ones
NORM_PARAMS = ("const W* gamma", "const W* beta", "const V* mean", "const V* var", "A eps")
BATCH_STATISTICS = (("mean", "(A)get(mean[c])"), ("scale", "(A)get(var[c])"), ("shift", "(A)get(beta[c])"))
GIVEN_STATISTICS = (
    BATCH_STATISTICS[0],
    ("scale", "root((A)get(var[c]) + eps) * (A)get(gamma[c])"),
    BATCH_STATISTICS[2],
)
NORMALIZE_EXPR = "(seen - mean) * scale + shift"
#: the gradient of x from that of y
INPUT_GRAD_EXPR = "a * ({} - b - (seen - mean) * d)"


def _have_same_format(*specs: Spec) -> bool:
    return len({(s.dtype, s.layout) for s in specs}) == 1


@cuda_kernel("batch_norm", layouts=True)
def batch_norm(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """With the batch's own statistics."""
    x, gamma, beta = ins
    if not _have_same_format(x, outs[0]) or gamma.dtype != beta.dtype or outs[1].dtype != outs[2].dtype:
        return None
    c = BatchNormGeometry(x, gamma, Spec((), "float64" if x.dtype == "float64" else "float32"), attrs, outs[1])
    if not c.fits:
        return None
    c.source += channelwise_source(
        "normalise", NORM_PARAMS, BATCH_STATISTICS, [("seen", x)], outs[:1], [], [NORMALIZE_EXPR], c.channels_last
    )
    vectors = InputArg(1), InputArg(2), WorkspaceArg(c.partial_bytes), WorkspaceArg(c.partial_bytes + c.vector_bytes)
    return LaunchSequence(
        *c.statistics_launches(InputArg(0), InputArg(1), OutputArg(1), OutputArg(2)),
        c.elements_launch("normalise", *vectors, c.eps, InputArg(0), OutputArg(0)),
        workspace_bytes=c.partial_bytes + 2 * c.vector_bytes,
    )


@cuda_kernel("batch_norm_grad", layouts=True)
def batch_norm_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """Gradients of x, gamma and beta."""
    g, x, gamma, mean, var = ins
    return _batch_norm_grad(g, x, gamma, None, mean, var, outs, attrs)


@cuda_kernel("batch_norm_relu_grad", layouts=True)
def batch_norm_relu_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """The same from the gradient of the activation that followed."""
    g, x, gamma, beta, mean, var = ins
    return None if beta.dtype != gamma.dtype else _batch_norm_grad(g, x, gamma, beta, mean, var, outs, attrs)


def _batch_norm_grad(
    g: Spec, x: Spec, gamma: Spec, beta: Spec | None, mean: Spec, var: Spec, outs: Specs, attrs: dict[str, Any]
) -> LaunchSequence | None:
    if not _have_same_format(g, x, outs[0]) or mean.dtype != var.dtype or any(o.dtype != gamma.dtype for o in outs[1:]):
        return None
    mask = DERIVATIVE_MASKS.get(attrs.get("activation_grad", ""))
    blocks = TARGET_BLOCKS if mask is None else TARGET_BLOCKS_80_REGISTERS
    c = BatchNormGeometry(x, gamma, mean, attrs, activation_mask=mask, target_blocks=blocks)
    if not c.fits:
        return None
    has_activation = beta is not None
    statistics = InputArg(3 + has_activation), InputArg(4 + has_activation)
    vectors = [InputArg(2), InputArg(3)] if has_activation else []
    channel_vectors, arguments, gradient = [*c.gradient_vectors], ["const A* own"], "g"
    if has_activation:
        arguments.append("const W* beta")
        channel_vectors.append(("shift", "(A)get(beta[c])"))
        gradient = "masked_gradient(g, (seen - mean) * a + shift)"
    c.source += channelwise_source(
        "grads_apply",
        arguments,
        channel_vectors,
        [("g", g), ("seen", x)],
        outs[:1],
        [],
        [INPUT_GRAD_EXPR.format(gradient)],
        c.channels_last,
    )
    workspace, reciprocal_rows = WorkspaceArg(c.partial_bytes), c.acc_type(1 / c.rows)
    return LaunchSequence(
        c.partial_launch("grads", InputArg(0), InputArg(1), *statistics, *vectors, c.eps, WorkspaceArg()),
        c.final_launch(
            "grads_end",
            *c.index_args(c.chunks),
            WorkspaceArg(),
            InputArg(2),
            *statistics,
            OutputArg(1),
            OutputArg(2),
            workspace,
            c.eps,
            reciprocal_rows,
        ),
        c.elements_launch("grads_apply", workspace, *vectors[1:], InputArg(0), InputArg(1), OutputArg(0)),
        workspace_bytes=c.partial_bytes + align_bytes(4 * c.channels * ITEM_BYTES[c.acc_dtype]),
    )


@cuda_kernel("batch_norm_inference", layouts=True)
def batch_norm_inference(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """With given statistics."""
    x, gamma, beta, mean, var = ins
    if not _have_same_format(x, outs[0]) or gamma.dtype != beta.dtype or mean.dtype != var.dtype:
        return None
    c = BatchNormGeometry(x, gamma, mean, attrs)
    if not c.fits:
        return None
    c.source += channelwise_source(
        "normalise", NORM_PARAMS, GIVEN_STATISTICS, [("seen", x)], outs, [], [NORMALIZE_EXPR], c.channels_last
    )
    return LaunchSequence(c.elements_launch("normalise", *map(InputArg, range(1, 5)), c.eps, InputArg(0), OutputArg(0)))


register_channels_last("cuda", "follows", "batch_norm", "batch_norm_inference", ins=(0,), outs=(0,))
register_channels_last("cuda", "follows", "batch_norm_grad", "batch_norm_relu_grad", ins=(0, 1), outs=(0,))
