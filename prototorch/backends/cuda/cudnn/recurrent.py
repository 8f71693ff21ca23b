"""Recurrent sequences: each step a product and one fused kernel; what needs no order is done for all steps at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.backends.cuda.cudnn.matmul import matmul
from prototorch.backends.cuda.kernels.launch import (
    InputArg,
    KernelLaunch,
    LaunchSequence,
    OutputArg,
    current_device,
    ensure_contiguous,
    grid_stride_launch,
    index_scalar,
)
from prototorch.backends.cuda.kernels.recurrent_cells import CELLS, cell_sources
from prototorch.backends.cuda.kernels.reduce import reduce_launches
from prototorch.backends.registry import KernelFn, kernel
from prototorch.spec import Spec

Specs = tuple[Spec, ...]


class KernelSequence:
    """A runner of several: launches, and runners with their arguments (`InputArg`, `OutputArg`, or arrays of the
    script)."""

    family = "recurrent"

    def __init__(self) -> None:
        self.device = current_device()
        self.steps: list[KernelLaunch | tuple[KernelFn, tuple[Any, ...], tuple[Any, ...]]] = []

    def add_kernel(self, runner: KernelFn, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        """Add a runner."""
        self.steps.append((runner, tuple(ins), tuple(outs)))

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Run all."""
        inputs = [ensure_contiguous(self.device, a) for a in inputs]

        def array(a: Any) -> Any:
            return inputs[a.index] if isinstance(a, InputArg) else outputs[a.index] if isinstance(a, OutputArg) else a

        for one in self.steps:
            if isinstance(one, KernelLaunch):
                self.device.launch(one.module, one.name, one.grid, one.block, [array(a) for a in one.args])
            else:
                runner, ins, outs = one
                runner([array(a) for a in ins], [array(a) for a in outs])


class _SequenceGeometry:
    """The sizes and texts of a sequence op; ``cell_sources`` is None where the kernels are not for it."""

    def __init__(self, name: str, ins: Specs, attrs: dict[str, Any]):
        self.gates, self.states, self.biased = CELLS[name]
        x = self.x = ins[0]
        self.samples, self.steps = x.shape[:2]
        self.units = x.shape[2] // self.gates
        self.masked, self.reverse = attrs.get("masked", False), attrs.get("reverse", False)
        given = attrs.get("activation", "tanh"), attrs.get("recurrent_activation", "sigmoid")
        self.texts = None
        plain = x.is_float and all(not s.layout and s.size for s in ins)
        if plain and attrs.get("reset_after", True) and all(s.dtype in (x.dtype, "bool") for s in ins):
            self.texts = cell_sources(name, self.units, self.steps, x.dtype, self.masked, *given)
        self.first = 2 + self.biased  # the number of the first state among the inputs
        self.mask = self.first + self.states
        self.extra = (*([InputArg(2)] if self.biased else []), *([InputArg(self.mask)] if self.masked else []))
        self.count = index_scalar(self.samples * self.units, 0)
        self.state = Spec((self.samples, self.units), x.dtype)
        self.inner = Spec((self.samples, self.gates * self.units), x.dtype)

    def time(self, place: int) -> int:
        """Which step of the input is walked at a place."""
        return self.steps - 1 - place if self.reverse else place


def _register(name: str) -> None:
    @kernel("cuda", name)
    def forward(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
        """The walk through time."""
        walk = _SequenceGeometry(name, ins, attrs)
        product = None if walk.texts is None else matmul((walk.state, ins[1]), (walk.inner,), {})
        if walk.texts is None or product is None:
            return None
        script, device = KernelSequence(), current_device()
        p = device.empty(walk.inner.shape, walk.inner.dtype)
        now = [device.empty(walk.state.shape, walk.state.dtype) for _ in range(walk.states)]
        first = [InputArg(walk.first + j) for j in range(walk.states)]
        alls = [OutputArg(0), *(OutputArg(1 + walk.states + j) for j in range(walk.states - 1))]
        made = [a for j in range(walk.states) for a in (now[j], alls[j], OutputArg(1 + j))]
        for place in range(walk.steps):
            old: Sequence[Any] = now if place else first
            script.add_kernel(product, (old[0], InputArg(1)), (p,))
            numbers = walk.count, index_scalar(walk.time(place), 0), index_scalar(place, 0)
            script.steps.append(
                grid_stride_launch(
                    walk.texts[0], "step", int(walk.count), *numbers, InputArg(0), p, *walk.extra, *old, *made
                )
            )
        return script

    @kernel("cuda", f"{name}_grad")
    def backward(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
        """The walk back, and the gradients of the weights from all steps at once."""
        walk = _SequenceGeometry(name, ins, attrs)
        if walk.texts is None:
            return None
        rows = walk.steps * walk.samples
        flat, wide = Spec((rows, walk.units), walk.x.dtype), Spec((rows, walk.gates * walk.units), walk.x.dtype)
        u = ins[1]
        inner = matmul((flat, u), (wide,), {})
        through = matmul((walk.inner, u), (walk.state,), {"transpose_b": True})
        weights = matmul((flat, wide), (outs[1],), {"transpose_a": True})
        bias = reduce_launches("sum", wide, outs[2], (0,)) if walk.biased else None
        if inner is None or through is None or weights is None or (walk.biased and bias is None):
            return None
        return _backward_sequence(walk, inner, through, weights, bias)


def _backward_sequence(
    walk: _SequenceGeometry, inner: KernelFn, through: KernelFn, weights: KernelFn, bias: LaunchSequence | None
) -> KernelSequence:
    assert walk.texts is not None
    script, device, text = KernelSequence(), current_device(), walk.texts[1]
    kind = "float64" if walk.x.dtype == "float64" else "float32"
    shape = (walk.steps, walk.samples)
    before = device.empty((walk.steps * walk.samples, walk.units), walk.x.dtype)
    p, dp = (device.empty((*shape, walk.gates * walk.units), walk.x.dtype) for _ in range(2))
    passed = device.empty(walk.state.shape, walk.x.dtype)
    after = walk.mask + walk.masked  # the number of the first state after each step among the inputs
    given = after + walk.states
    n = int(walk.count)
    total = walk.steps * n
    first, alls = InputArg(walk.first), InputArg(after)
    counts = index_scalar(total, 0), index_scalar(walk.samples, 0)
    script.steps.append(grid_stride_launch(text, "before", total, *counts, first, alls, before))
    script.add_kernel(inner, (before, InputArg(1)), (p.reshape(-1, walk.gates * walk.units),))
    now = [device.empty(walk.state.shape, kind) for _ in range(walk.states)]
    for j, d in enumerate(now):
        script.steps.append(grid_stride_launch(text, "begin", n, walk.count, InputArg(given + 1 + j), d))
    states = [a for j in range(walk.states) for a in (InputArg(walk.first + j), InputArg(after + j), now[j])]
    for place in reversed(range(walk.steps)):
        carried = np.uint32(place != walk.steps - 1)
        numbers = walk.count, index_scalar(walk.time(place), 0), index_scalar(place, 0), carried
        rest = (InputArg(given), passed, OutputArg(0), dp[place])
        script.steps.append(
            grid_stride_launch(text, "back", n, *numbers, InputArg(0), p[place], *walk.extra, *states, *rest)
        )
        script.add_kernel(through, (dp[place], InputArg(1)), (passed,))
    at = 2 + walk.biased
    for j, d in enumerate(now):
        added = passed if j == 0 else np.uint64(0)
        script.steps.append(grid_stride_launch(text, "finish", n, walk.count, d, added, OutputArg(at + j)))
    flat = dp.reshape(-1, walk.gates * walk.units)
    script.add_kernel(weights, (before, flat), (OutputArg(1),))
    if bias is not None:
        script.add_kernel(bias, (flat,), (OutputArg(2),))
    return script


for _name in CELLS:
    _register(_name)
