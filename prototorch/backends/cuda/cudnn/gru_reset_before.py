"""Gated recurrent units whose reset gate comes before the product: a step is two products and a kernel after each.

The gradient computes the gates' products of all steps at once from the states, and walks back with two products a step;
the weights' gradients are products over all steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.backends.cuda.cudnn.matmul import matmul
from prototorch.backends.cuda.cudnn.recurrent import KernelSequence
from prototorch.backends.cuda.kernels.gru_reset_before import gru_source
from prototorch.backends.cuda.kernels.launch import (
    InputArg,
    OutputArg,
    current_device,
    grid_stride_launch,
    index_scalar,
)
from prototorch.backends.cuda.kernels.reduce import reduce_launches
from prototorch.backends.registry import KernelFn, kernel
from prototorch.spec import Spec

Specs = tuple[Spec, ...]
_X, _U, _BIAS, _FIRST, _MASK = (InputArg(i) for i in range(5))


class _GruGeometry:
    """The sizes and text of a walk; ``text`` is None where the kernels are not for it."""

    def __init__(self, ins: Specs, attrs: dict[str, Any]):
        x = self.x = ins[0]
        self.samples, self.steps = x.shape[:2]
        self.units = x.shape[2] // 3
        self.masked, self.reverse = attrs.get("masked", False), attrs.get("reverse", False)
        self.text = None
        plain = x.is_float and all(not s.layout and s.size and s.dtype in (x.dtype, "bool") for s in ins)
        if plain and not attrs.get("reset_after", True):
            given = attrs.get("activation", "tanh"), attrs.get("recurrent_activation", "sigmoid")
            self.text = gru_source(self.units, self.steps, x.dtype, self.masked, *given)
        self.mask = [_MASK] if self.masked else []
        self.n, self.weights = self.samples * self.units, 3 * self.units * self.units
        self.count = index_scalar(self.n, 0)

    def time(self, place: int) -> int:
        """Which step of the input is walked at a place."""
        return self.steps - 1 - place if self.reverse else place

    def spec(self, rows: int, width: int = 1) -> Spec:
        """Rows of ``width`` times the units."""
        return Spec((rows, width * self.units), self.x.dtype)

    def empty(self, *sizes: int) -> Any:
        """Memory of the walk's type."""
        return current_device().empty(sizes, self.x.dtype)

    def product(self, rows: int, width: int, back: bool = False) -> KernelFn | None:
        """Rows by the weights of ``width`` gates, or back to the units."""
        narrow, wide, u = self.spec(rows), self.spec(rows, width), self.spec(self.units, width)
        return matmul((wide, u), (narrow,), {"transpose_b": True}) if back else matmul((narrow, u), (wide,), {})

    def opened(self, script: KernelSequence) -> tuple[Any, Any]:
        """The weights of the gates z and r, and those of the new content, each by itself."""
        early, late = self.empty(self.units, 2 * self.units), self.empty(self.units, self.units)
        self.add(script, "parts", self.weights, index_scalar(self.weights, 0), _U, early, late)
        return early, late

    def left(self, script: KernelSequence, rows: int, place: int, p: Any, old: Any, out: Any) -> None:
        """What the reset gate leaves of the states of ``rows`` rows, from the walk's ``place`` on."""
        n = rows * self.units
        numbers = (
            index_scalar(n, 0),
            index_scalar(self.samples, 0),
            index_scalar(self.time(place), 0),
            np.uint32(self.reverse),
        )
        self.add(script, "left", n, *numbers, _X, p, _BIAS, old, out)

    def add(self, script: KernelSequence, name: str, count: int, *args: Any) -> None:
        """Add a launch of one of the text's kernels."""
        assert self.text is not None
        script.steps.append(grid_stride_launch(self.text, name, count, *args))


@kernel("cuda", "gru_sequence")
def forward(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """The walk through time."""
    walk = _GruGeometry(ins, attrs)
    if walk.text is None:
        return None
    gates, content = walk.product(walk.samples, 2), walk.product(walk.samples, 1)
    if gates is None or content is None:
        return None
    script = KernelSequence()
    p, left, q, now = (walk.empty(walk.samples, width * walk.units) for width in (2, 1, 1, 1))
    early, late = walk.opened(script)
    for place in range(walk.steps):
        old = now if place else _FIRST
        script.add_kernel(gates, (old, early), (p,))
        walk.left(script, walk.samples, place, p, old, left)
        script.add_kernel(content, (left, late), (q,))
        numbers = walk.count, index_scalar(walk.time(place), 0), index_scalar(place, 0)
        walk.add(script, "step", walk.n, *numbers, _X, p, q, _BIAS, *walk.mask, old, now, OutputArg(0), OutputArg(1))
    return script


@kernel("cuda", "gru_sequence_grad")
def backward(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """The walk back, and the gradients of the weights from all steps at once."""
    walk = _GruGeometry(ins, attrs)
    if walk.text is None:
        return None
    samples, rows = walk.samples, walk.steps * walk.samples
    runners: dict[tuple[str, int], KernelFn] = {}
    for width in (2, 1):
        turned = matmul((walk.spec(rows), walk.spec(rows, width)), (walk.spec(walk.units, width),),
                        {"transpose_a": True})  # fmt: skip
        found = {"all": walk.product(rows, width), "back": walk.product(samples, width, back=True), "weights": turned}
        runners |= {(name, width): runner for name, runner in found.items() if runner is not None}
    # the bias stands beside the input's part in every gate, so its gradient is the sum of that of x
    bias = reduce_launches("sum", Spec((rows, 3 * walk.units), walk.x.dtype), outs[2], (0,))
    return _backward_sequence(walk, runners, bias) if len(runners) == 6 and bias is not None else None


def _backward_sequence(walk: _GruGeometry, runners: dict[tuple[str, int], KernelFn], bias: KernelFn) -> KernelSequence:
    script, samples, units = KernelSequence(), walk.samples, walk.units
    rows, n = walk.steps * samples, walk.n
    before, left, q, dq = (walk.empty(rows, units) for _ in range(4))
    p, dp = (walk.empty(rows, 2 * units) for _ in range(2))
    through, of_left = (walk.empty(samples, units) for _ in range(2))
    now = current_device().empty((samples, units), "float64" if walk.x.dtype == "float64" else "float32")
    after, given, last = (InputArg(4 + walk.masked + j) for j in range(3))
    early, late = walk.opened(script)
    total = rows * units
    walk.add(script, "before", total, index_scalar(total, 0), index_scalar(samples, 0), _FIRST, after, before)
    script.add_kernel(runners["all", 2], (before, early), (p,))
    walk.left(script, rows, 0, p, before, left)
    script.add_kernel(runners["all", 1], (left, late), (q,))
    walk.add(script, "begin", n, walk.count, last, now)
    for place in reversed(range(walk.steps)):
        here = slice(place * samples, (place + 1) * samples)
        time, carried = index_scalar(walk.time(place), 0), np.uint32(place != walk.steps - 1)
        states = before[here], given, through, now
        walk.add(script, "back", n, walk.count, time, index_scalar(place, 0), carried, _X, p[here], q[here], _BIAS,
                 *walk.mask, *states, OutputArg(0), dp[here], dq[here])  # fmt: skip
        script.add_kernel(runners["back", 1], (dq[here], late), (of_left,))
        walk.add(script, "back_left", n, walk.count, time, _X, p[here], _BIAS, before[here], of_left, now, OutputArg(0),
                 dp[here])  # fmt: skip
        script.add_kernel(runners["back", 2], (dp[here], early), (through,))
    walk.add(script, "finish", n, walk.count, now, through, OutputArg(3))
    d_early, d_late = walk.empty(units, 2 * units), walk.empty(units, units)
    script.add_kernel(runners["weights", 2], (before, dp), (d_early,))
    script.add_kernel(runners["weights", 1], (left, dq), (d_late,))
    walk.add(script, "whole", walk.weights, index_scalar(walk.weights, 0), d_early, d_late, OutputArg(1))
    script.add_kernel(bias, (OutputArg(0),), (OutputArg(2),))
    return script
