"""Recurrent sequences: a product and one fused kernel for each time step; what does not depend on the order of the
steps is computed for all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.cuda.cudnn.matmul import matmul
from prototorch.cuda.kernels.launch import (
    InputArg,
    KernelLaunch,
    LaunchSequence,
    OutputArg,
    current_device,
    ensure_contiguous,
    grid_stride_launch,
    index_scalar,
)
from prototorch.cuda.kernels.recurrent_cells import CELLS, cell_sources
from prototorch.cuda.kernels.reduce import reduce_launches
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.spec import Spec

__all__ = ["KernelSequence", "SequenceGeometry"]

Specs = tuple[Spec, ...]


class KernelSequence:
    """A runner of several: launches, and runners with their arguments (`InputArg`, `OutputArg`, or arrays of the
    script)."""

    family = "recurrent"

    def __init__(self) -> None:
        self.device = current_device()
        self.steps: list[KernelLaunch | tuple[KernelFn, tuple[Any, ...], tuple[Any, ...]]] = []

    def add_kernel(self, runner: KernelFn, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        """Add a kernel that runs next. ins, outs: `InputArg`, `OutputArg`, or arrays of the script."""
        self.steps.append((runner, tuple(ins), tuple(outs)))

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Run the kernels in the order in which they stand."""
        inputs = [ensure_contiguous(self.device, a) for a in inputs]

        def array(a: Any) -> Any:
            return inputs[a.index] if isinstance(a, InputArg) else outputs[a.index] if isinstance(a, OutputArg) else a

        for entry in self.steps:
            if isinstance(entry, KernelLaunch):
                self.device.launch(entry.module, entry.name, entry.grid, entry.block, [array(a) for a in entry.args])
            else:
                runner, ins, outs = entry
                runner([array(a) for a in ins], [array(a) for a in outs])


class SequenceGeometry:
    """The sizes of a sequence and the sources of its kernels; ``texts`` is None where they do not apply."""

    def __init__(self, name: str, ins: Specs, attrs: dict[str, Any]):
        self.gates, self.states, self.biased = CELLS[name]
        x = self.x = ins[0]
        self.samples, self.steps = x.shape[:2]
        self.units = x.shape[2] // self.gates
        self.masked, self.reverse = attrs.get("masked", False), attrs.get("reverse", False)
        activations = attrs.get("activation", "tanh"), attrs.get("recurrent_activation", "sigmoid")
        #: an index's largest value where it needs 64 bits, else 0
        self.largest = x.size if x.size >= 1 << 31 else 0
        self.texts = None
        is_supported = x.is_float and all(not s.layout and s.size for s in ins)
        if is_supported and attrs.get("reset_after", True) and all(s.dtype in (x.dtype, "bool") for s in ins):
            self.texts = cell_sources(name, self.units, self.steps, x.dtype, self.masked, *activations, self.largest)
        self.first = 2 + self.biased  # the index of the first state among the inputs
        self.mask = self.first + self.states
        self.extra = (*([InputArg(2)] if self.biased else []), *([InputArg(self.mask)] if self.masked else []))
        self.count = self.index(self.samples * self.units)
        self.state = Spec((self.samples, self.units), x.dtype)
        self.inner = Spec((self.samples, self.gates * self.units), x.dtype)

    def index(self, value: int) -> np.uint32 | np.uint64:
        """A number of the kernels' index type."""
        return index_scalar(value, self.largest)

    def time(self, position: int) -> int:
        """The time step of the input that is processed at a position."""
        return self.steps - 1 - position if self.reverse else position


def _register(name: str) -> None:
    @kernel("cuda", name)
    def forward(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
        """The sequence of time steps."""
        geometry = SequenceGeometry(name, ins, attrs)
        product = None if geometry.texts is None else matmul((geometry.state, ins[1]), (geometry.inner,), {})
        if geometry.texts is None or product is None:
            return None
        sequence, device = KernelSequence(), current_device()
        p = device.empty(geometry.inner.shape, geometry.inner.dtype)
        state_grads = [device.empty(geometry.state.shape, geometry.state.dtype) for _ in range(geometry.states)]
        first = [InputArg(geometry.first + j) for j in range(geometry.states)]
        alls = [OutputArg(0), *(OutputArg(1 + geometry.states + j) for j in range(geometry.states - 1))]
        state_outputs = [a for j in range(geometry.states) for a in (state_grads[j], alls[j], OutputArg(1 + j))]
        for position in range(geometry.steps):
            old: Sequence[Any] = state_grads if position else first
            sequence.add_kernel(product, (old[0], InputArg(1)), (p,))
            numbers = (
                geometry.count,
                geometry.index(geometry.time(position)),
                geometry.index(position),
            )
            sequence.steps.append(
                grid_stride_launch(
                    geometry.texts[0],
                    "step",
                    int(geometry.count),
                    *numbers,
                    InputArg(0),
                    p,
                    *geometry.extra,
                    *old,
                    *state_outputs,
                )
            )
        return sequence

    @kernel("cuda", f"{name}_grad")
    def backward(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
        """Backpropagation through time, and the gradients of the weights from all time steps at once."""
        geometry = SequenceGeometry(name, ins, attrs)
        if geometry.texts is None:
            return None
        rows = geometry.steps * geometry.samples
        flat, wide = (
            Spec((rows, geometry.units), geometry.x.dtype),
            Spec((rows, geometry.gates * geometry.units), geometry.x.dtype),
        )
        u = ins[1]
        inner = matmul((flat, u), (wide,), {})
        through = matmul((geometry.inner, u), (geometry.state,), {"transpose_b": True})
        weights = matmul((flat, wide), (outs[1],), {"transpose_a": True})
        bias = reduce_launches("sum", wide, outs[2], (0,)) if geometry.biased else None
        if inner is None or through is None or weights is None or (geometry.biased and bias is None):
            return None
        return _backward_sequence(geometry, inner, through, weights, bias)


def _backward_sequence(
    geometry: SequenceGeometry,
    gate_product: KernelFn,
    to_state: KernelFn,
    weights: KernelFn,
    bias: LaunchSequence | None,
) -> KernelSequence:
    assert geometry.texts is not None
    sequence, device, text = KernelSequence(), current_device(), geometry.texts[1]
    kind = "float64" if geometry.x.dtype == "float64" else "float32"
    shape = (geometry.steps, geometry.samples)
    previous_states = device.empty((geometry.steps * geometry.samples, geometry.units), geometry.x.dtype)
    p, dp = (device.empty((*shape, geometry.gates * geometry.units), geometry.x.dtype) for _ in range(2))
    state_product = device.empty(geometry.state.shape, geometry.x.dtype)
    first_all_states = geometry.mask + geometry.masked  # the index of the first state after each step among the inputs
    output_grad = first_all_states + geometry.states
    n = int(geometry.count)
    total = geometry.steps * n
    first, all_states = InputArg(geometry.first), InputArg(first_all_states)
    counts = geometry.index(total), geometry.index(geometry.samples)
    sequence.steps.append(grid_stride_launch(text, "shift_states", total, *counts, first, all_states, previous_states))
    sequence.add_kernel(gate_product, (previous_states, InputArg(1)), (p.reshape(-1, geometry.gates * geometry.units),))
    state_grads = [device.empty(geometry.state.shape, kind) for _ in range(geometry.states)]
    for j, d in enumerate(state_grads):
        sequence.steps.append(grid_stride_launch(text, "begin", n, geometry.count, InputArg(output_grad + 1 + j), d))
    states = [
        a
        for j in range(geometry.states)
        for a in (InputArg(geometry.first + j), InputArg(first_all_states + j), state_grads[j])
    ]
    for position in reversed(range(geometry.steps)):
        has_next = np.uint32(position != geometry.steps - 1)
        numbers = (
            geometry.count,
            geometry.index(geometry.time(position)),
            geometry.index(position),
            has_next,
        )
        rest = (InputArg(output_grad), state_product, OutputArg(0), dp[position])
        sequence.steps.append(
            grid_stride_launch(text, "back", n, *numbers, InputArg(0), p[position], *geometry.extra, *states, *rest)
        )
        sequence.add_kernel(to_state, (dp[position], InputArg(1)), (state_product,))
    first_state_output = 2 + geometry.biased
    for j, d in enumerate(state_grads):
        last_product = state_product if j == 0 else np.uint64(0)
        sequence.steps.append(
            grid_stride_launch(text, "finish", n, geometry.count, d, last_product, OutputArg(first_state_output + j))
        )
    flat = dp.reshape(-1, geometry.gates * geometry.units)
    sequence.add_kernel(weights, (previous_states, flat), (OutputArg(1),))
    if bias is not None:
        sequence.add_kernel(bias, (flat,), (OutputArg(2),))
    return sequence


for _name in CELLS:
    _register(_name)
