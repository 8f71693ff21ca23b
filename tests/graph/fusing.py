"""A backend whose plain bodies stand for kernels that fuse, to try the passes without native code."""

from __future__ import annotations

import numpy as np

import prototorch as pt
from prototorch import ops
from prototorch.engine.backends.capabilities import register_channels_last, register_fusion_role
from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.registry import kernel
from prototorch.ops.activation import ActivationGrad
from prototorch.ops.core import Op
from prototorch.ops.elementwise import BinaryOp, UnaryOp
from prototorch.ops.operators import OPS
from prototorch.ops.update import Update
from prototorch.runtime.variables import Variables
from prototorch.spec import Spec
from prototorch.train.plan_cache import PlanCache
from prototorch.train.step_inputs import (
    LEARNING_RATE,
    PREDICT,
    SAMPLE_WEIGHT_PREFIX,
    STEP,
    TARGET_PREFIX,
    TRAIN,
    random_key,
)

LEVEL = "test_fusing"
ELEMENTWISE = sorted(
    n for n, op in OPS.items() if isinstance(op, UnaryOp | BinaryOp | ActivationGrad | Update) and not op.is_view
)
BARE = "test_not_fusing"  # all other passes, so that the bodies and the order of sums are the same
register_fusion_role(BARE, "elementwise")
register_fusion_role(LEVEL, "elementwise", *ELEMENTWISE, "where", "cast", "prelu", "dropout")
register_fusion_role(LEVEL, "anchor", "conv", "conv_input_grad", "matmul")


def plain(op: Op, attrs):
    """The op's plain body as a runner that counts as a kernel."""
    return Backend("", np, ()).reference(op, attrs)


@kernel(LEVEL, "fused")
def fused(ins, outs, attrs):
    """Any group but one of an anchor that has several outputs, other than a weight with its slots."""
    first, last = attrs["program"][0][0], attrs["program"][-1][0]
    several = len(outs) > 1 and not last.endswith("_update")
    return None if several and first in ("conv", "conv_input_grad", "matmul") else plain(ops.fused, attrs)


LAID = "test_laying_out"
CONVS = ("conv", "conv_input_grad", "conv_weight_grad")
POOLS = ("max_pool", "max_pool_grad", "avg_pool", "avg_pool_grad")


def spatial(ins, attrs):
    """Only reductions that leave out no place in the middle."""
    axis = attrs.get("axis")
    over = (
        range(ins[0].ndim) if axis is None else {a % ins[0].ndim for a in ([axis] if isinstance(axis, int) else axis)}
    )
    return set(over) >= set(range(2, ins[0].ndim))


register_channels_last(LAID, "prefers", "conv", "conv_input_grad", ins=(0,), outs=(0,))
register_channels_last(LAID, "prefers", "conv_weight_grad", ins=(0, 1), outs=())
register_channels_last(LAID, "prefers", *POOLS, "lrn", "lrn_grad")
register_channels_last(LAID, "prefers", "batch_norm", "batch_norm_inference", ins=(0,), outs=(0,))
register_channels_last(LAID, "prefers", "batch_norm_grad", ins=(0, 1), outs=(0,))
register_channels_last(LAID, "follows", *ELEMENTWISE, "where", "cast", "prelu", "dropout", "fused", "broadcast_to")
register_channels_last(LAID, "follows", "slice", "slice_grad", "reorder")
register_channels_last(LAID, "follows", "concat", when=lambda ins, attrs: attrs["axis"] == 1)
register_channels_last(LAID, "follows", "sum", "mean", when=spatial)
register_fusion_role(LAID, "elementwise", *ELEMENTWISE, "where", "cast", "prelu", "dropout")
register_fusion_role(LAID, "anchor", *CONVS[:2], "matmul")


def _enter(name: str) -> None:
    """A kernel that looks at its arrays; it computes on plain copies, in which sums have the same order as ever."""

    @kernel(LAID, name)
    def prepare(ins, outs, attrs):
        run = fused(ins, outs, attrs) if name == "fused" else plain(OPS[name], attrs)
        if run is None:
            return None

        def checked(inputs, outputs):
            for array, spec in zip((*inputs, *outputs), (*ins, *outs), strict=True):
                lies = np.moveaxis(array, 1, -1) if spec.layout else array
                assert lies.flags.c_contiguous
                assert array.shape == spec.shape
            run([np.ascontiguousarray(a).reshape(a.shape) for a in inputs], outputs)

        return checked


for _name in (
    *CONVS,
    *POOLS,
    *ELEMENTWISE,
    "batch_norm",
    "batch_norm_grad",
    "batch_norm_inference",
    "concat",
    "sum",
    "mean",
    "lrn",
    "lrn_grad",
    "slice",
    "slice_grad",
    "reorder",
    "broadcast_to",
    "fused",
):
    _enter(_name)


def program_of(model: str, level: str = LEVEL, **params) -> PlanCache:
    """The programs of a shipped model on the backend of a level."""
    found = pt.load_model(model, **params)
    return PlanCache(found.net, Variables(), Backend(level, np, (level,) if level else ()), found.compile_block)


def specs_of(program: PlanCache, batch: int, size: int | None = None) -> dict[str, Spec]:
    """Inputs of a batch, pictures of another size where one is given."""
    made = {}
    for node in program.net.inputs:
        shape = node.shape if size is None else (node.shape[0], size, size)
        made[node.name] = Spec((batch, *shape), node.dtype)
    return made


def train(program: PlanCache, specs, steps: int = 2, classes: int = 10):
    """Some training steps on random data: the losses, and all variables after them."""
    runner = program.executor(TRAIN, specs)
    rng = np.random.default_rng(0)
    losses = []
    for step in range(1, steps + 1):
        given = {LEARNING_RATE: np.float32(0.01), STEP: np.int64(step), "random_key": random_key(3, step)}
        for name, value in runner.plan.inputs.items():
            if name.startswith(TARGET_PREFIX):
                given[name] = rng.integers(0, classes, value.shape)
            elif name.startswith(SAMPLE_WEIGHT_PREFIX):
                given[name] = np.ones(value.shape, np.float32)
            elif name in specs:
                given[name] = rng.standard_normal(value.shape).astype(value.dtype)
        losses.append(float(runner({name: given[name] for name in runner.plan.inputs})["loss"]))
    return losses, {name: np.array(a) for name, a in program.variables.items()}


def predict(program: PlanCache, specs):
    """The outputs for random data."""
    runner = program.executor(PREDICT, specs)
    rng = np.random.default_rng(1)
    given = {
        name: (rng.standard_normal(v.shape) if v.is_float else rng.integers(0, 9, v.shape)).astype(v.dtype)
        for name, v in runner.plan.inputs.items()
    }
    return {name: np.array(a) for name, a in runner(given).items()}


def names(plan) -> list[str]:
    """The ops of a plan's steps; a group as its members joined by +."""
    return [
        "+".join(line[0] for line in s.node.attrs["program"]) if s.node.op is ops.fused else s.node.op.name
        for s in plan.steps
    ]
