"""Recurrent sequences: each step a product and one fused kernel; what needs no order is done for all steps at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.backends.core import Runner, kernel
from prototorch.backends.cuda.cudnn.dense import matmul
from prototorch.backends.cuda.kernels.cells import KINDS, texts
from prototorch.backends.cuda.kernels.launch import In, Launch, Launches, Out, current, dense, index, launch
from prototorch.backends.cuda.kernels.reduce import reduction
from prototorch.spec import Spec

Specs = tuple[Spec, ...]


class Script:
    """A runner of several: launches, and runners with their arguments (`In`, `Out`, or arrays of the script)."""

    family = "recurrent"

    def __init__(self) -> None:
        self.device = current()
        self.steps: list[Launch | tuple[Runner, tuple[Any, ...], tuple[Any, ...]]] = []

    def call(self, runner: Runner, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        """Add a runner."""
        self.steps.append((runner, tuple(ins), tuple(outs)))

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Run all."""
        inputs = [dense(self.device, a) for a in inputs]

        def array(a: Any) -> Any:
            return inputs[a.number] if isinstance(a, In) else outputs[a.number] if isinstance(a, Out) else a

        for one in self.steps:
            if isinstance(one, Launch):
                self.device.launch(one.module, one.name, one.grid, one.block, [array(a) for a in one.args])
            else:
                runner, ins, outs = one
                runner([array(a) for a in ins], [array(a) for a in outs])


class _Walk:
    """The sizes and texts of a sequence op; ``texts`` is None where the kernels are not for it."""

    def __init__(self, name: str, ins: Specs, attrs: dict[str, Any]):
        self.gates, self.states, self.biased = KINDS[name]
        x = self.x = ins[0]
        self.samples, self.steps = x.shape[:2]
        self.units = x.shape[2] // self.gates
        self.masked, self.reverse = attrs.get("masked", False), attrs.get("reverse", False)
        given = attrs.get("activation", "tanh"), attrs.get("recurrent_activation", "sigmoid")
        self.texts = None
        plain = x.is_float and all(not s.layout and s.size for s in ins)
        if plain and attrs.get("reset_after", True) and all(s.dtype in (x.dtype, "bool") for s in ins):
            self.texts = texts(name, self.units, self.steps, x.dtype, self.masked, *given)
        self.first = 2 + self.biased  # the number of the first state among the inputs
        self.mask = self.first + self.states
        self.extra = (*([In(2)] if self.biased else []), *([In(self.mask)] if self.masked else []))
        self.count = index(self.samples * self.units, 0)
        self.state = Spec((self.samples, self.units), x.dtype)
        self.inner = Spec((self.samples, self.gates * self.units), x.dtype)

    def time(self, place: int) -> int:
        """Which step of the input is walked at a place."""
        return self.steps - 1 - place if self.reverse else place


def _enter(name: str) -> None:
    @kernel("cuda", name)
    def forward(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Runner | None:
        """The walk through time."""
        walk = _Walk(name, ins, attrs)
        product = None if walk.texts is None else matmul((walk.state, ins[1]), (walk.inner,), {})
        if walk.texts is None or product is None:
            return None
        script, device = Script(), current()
        p = device.empty(walk.inner.shape, walk.inner.dtype)
        now = [device.empty(walk.state.shape, walk.state.dtype) for _ in range(walk.states)]
        first = [In(walk.first + j) for j in range(walk.states)]
        alls = [Out(0), *(Out(1 + walk.states + j) for j in range(walk.states - 1))]
        made = [a for j in range(walk.states) for a in (now[j], alls[j], Out(1 + j))]
        for place in range(walk.steps):
            old: Sequence[Any] = now if place else first
            script.call(product, (old[0], In(1)), (p,))
            numbers = walk.count, index(walk.time(place), 0), index(place, 0)
            script.steps.append(
                launch(walk.texts[0], "step", int(walk.count), *numbers, In(0), p, *walk.extra, *old, *made)
            )
        return script

    @kernel("cuda", f"{name}_grad")
    def backward(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Runner | None:
        """The walk back, and the gradients of the weights from all steps at once."""
        walk = _Walk(name, ins, attrs)
        if walk.texts is None:
            return None
        rows = walk.steps * walk.samples
        flat, wide = Spec((rows, walk.units), walk.x.dtype), Spec((rows, walk.gates * walk.units), walk.x.dtype)
        u = ins[1]
        inner = matmul((flat, u), (wide,), {})
        through = matmul((walk.inner, u), (walk.state,), {"transpose_b": True})
        weights = matmul((flat, wide), (outs[1],), {"transpose_a": True})
        bias = reduction("sum", wide, outs[2], (0,)) if walk.biased else None
        if inner is None or through is None or weights is None or (walk.biased and bias is None):
            return None
        return _back(walk, inner, through, weights, bias)


def _back(walk: _Walk, inner: Runner, through: Runner, weights: Runner, bias: Launches | None) -> Script:
    assert walk.texts is not None
    script, device, text = Script(), current(), walk.texts[1]
    kind = "float64" if walk.x.dtype == "float64" else "float32"
    shape = (walk.steps, walk.samples)
    before = device.empty((walk.steps * walk.samples, walk.units), walk.x.dtype)
    p, dp = (device.empty((*shape, walk.gates * walk.units), walk.x.dtype) for _ in range(2))
    passed = device.empty(walk.state.shape, walk.x.dtype)
    after = walk.mask + walk.masked  # the number of the first state after each step among the inputs
    given = after + walk.states
    n = int(walk.count)
    total = walk.steps * n
    first, alls = In(walk.first), In(after)
    counts = index(total, 0), index(walk.samples, 0)
    script.steps.append(launch(text, "before", total, *counts, first, alls, before))
    script.call(inner, (before, In(1)), (p.reshape(-1, walk.gates * walk.units),))
    now = [device.empty(walk.state.shape, kind) for _ in range(walk.states)]
    for j, d in enumerate(now):
        script.steps.append(launch(text, "begin", n, walk.count, In(given + 1 + j), d))
    states = [a for j in range(walk.states) for a in (In(walk.first + j), In(after + j), now[j])]
    for place in reversed(range(walk.steps)):
        carried = np.uint32(place != walk.steps - 1)
        numbers = walk.count, index(walk.time(place), 0), index(place, 0), carried
        rest = (In(given), passed, Out(0), dp[place])
        script.steps.append(launch(text, "back", n, *numbers, In(0), p[place], *walk.extra, *states, *rest))
        script.call(through, (dp[place], In(1)), (passed,))
    at = 2 + walk.biased
    for j, d in enumerate(now):
        added = passed if j == 0 else np.uint64(0)
        script.steps.append(launch(text, "finish", n, walk.count, d, added, Out(at + j)))
    flat = dp.reshape(-1, walk.gates * walk.units)
    script.call(weights, (before, flat), (Out(1),))
    if bias is not None:
        script.call(bias, (flat,), (Out(2),))
    return script


for _name in KINDS:
    _enter(_name)
