"""GRU sequences with the reset gate before the product (``reset_after: false``; Cho et al., 2014): a time step is two
products and a kernel after each.

The gradient recomputes the gates' products of all time steps at once from the states, and goes back through time with
two products a step; the gradients of the weights are products over all steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.cuda.cudnn.matmul import matmul
from prototorch.cuda.cudnn.recurrent import KernelSequence
from prototorch.cuda.kernels.gru_reset_before import gru_source
from prototorch.cuda.kernels.launch import (
    InputArg,
    OutputArg,
    current_device,
    grid_stride_launch,
    index_scalar,
)
from prototorch.cuda.kernels.reduce import reduce_launches
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.spec import Spec

Specs = tuple[Spec, ...]
_X, _U, _BIAS, _FIRST, _MASK = (InputArg(i) for i in range(5))


class _GruGeometry:
    """The sizes of a sequence and the source of its kernels; ``text`` is None where they do not apply."""

    def __init__(self, ins: Specs, attrs: dict[str, Any]):
        x = self.x = ins[0]
        self.samples, self.steps = x.shape[:2]
        self.units = x.shape[2] // 3
        self.masked, self.reverse = attrs.get("masked", False), attrs.get("reverse", False)
        #: an index's largest value where it needs 64 bits, else 0
        self.largest = x.size if x.size >= 1 << 31 else 0
        self.text = None
        is_supported = x.is_float and all(not s.layout and s.size and s.dtype in (x.dtype, "bool") for s in ins)
        if is_supported and not attrs.get("reset_after", True):
            activations = attrs.get("activation", "tanh"), attrs.get("recurrent_activation", "sigmoid")
            self.text = gru_source(self.units, self.steps, x.dtype, self.masked, *activations, self.largest)
        self.mask = [_MASK] if self.masked else []
        self.n, self.weights = self.samples * self.units, 3 * self.units * self.units
        self.count = self.index(self.n)

    def index(self, value: int) -> np.uint32 | np.uint64:
        """A number of the kernels' index type."""
        return index_scalar(value, self.largest)

    def time(self, position: int) -> int:
        """The time step of the input that is processed at a position."""
        return self.steps - 1 - position if self.reverse else position

    def spec(self, rows: int, width: int = 1) -> Spec:
        """Rows of ``width`` times the units."""
        return Spec((rows, width * self.units), self.x.dtype)

    def empty(self, *sizes: int) -> Any:
        """Memory of the dtype of the sequence."""
        return current_device().empty(sizes, self.x.dtype)

    def product(self, rows: int, width: int, to_units: bool = False) -> KernelFn | None:
        """The product of rows with the weights of ``width`` gates; or, ``to_units``, with their transpose."""
        narrow, wide, u = self.spec(rows), self.spec(rows, width), self.spec(self.units, width)
        return matmul((wide, u), (narrow,), {"transpose_b": True}) if to_units else matmul((narrow, u), (wide,), {})

    def split_weights(self, sequence: KernelSequence) -> tuple[Any, Any]:
        """Add the split of the weights: those of the gates z and r, and those of the candidate state."""
        gate_weights, candidate_weights = self.empty(self.units, 2 * self.units), self.empty(self.units, self.units)
        self.add(
            sequence,
            "parts",
            self.weights,
            self.index(self.weights),
            _U,
            gate_weights,
            candidate_weights,
        )
        return gate_weights, candidate_weights

    def add_reset_state(
        self, sequence: KernelSequence, rows: int, position: int, gate_products: Any, previous: Any, out: Any
    ) -> None:
        """Add the product of reset gate and state for ``rows`` rows, from ``position`` on."""
        n = rows * self.units
        numbers = (
            self.index(n),
            self.index(self.samples),
            self.index(self.time(position)),
            np.uint32(self.reverse),
        )
        self.add(sequence, "left", n, *numbers, _X, gate_products, _BIAS, previous, out)

    def add(self, sequence: KernelSequence, name: str, count: int, *args: Any) -> None:
        """Add a launch of one of the kernels."""
        assert self.text is not None
        sequence.steps.append(grid_stride_launch(self.text, name, count, *args))


@kernel("cuda", "gru_sequence")
def forward(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """The sequence of time steps."""
    geometry = _GruGeometry(ins, attrs)
    if geometry.text is None:
        return None
    gate_product, candidate_product = geometry.product(geometry.samples, 2), geometry.product(geometry.samples, 1)
    if gate_product is None or candidate_product is None:
        return None
    sequence = KernelSequence()
    gate_products, reset_state, candidate_products, state = (
        geometry.empty(geometry.samples, width * geometry.units) for width in (2, 1, 1, 1)
    )
    gate_weights, candidate_weights = geometry.split_weights(sequence)
    for position in range(geometry.steps):
        previous = state if position else _FIRST
        sequence.add_kernel(gate_product, (previous, gate_weights), (gate_products,))
        geometry.add_reset_state(sequence, geometry.samples, position, gate_products, previous, reset_state)
        sequence.add_kernel(candidate_product, (reset_state, candidate_weights), (candidate_products,))
        numbers = (
            geometry.count,
            geometry.index(geometry.time(position)),
            geometry.index(position),
        )
        geometry.add(
            sequence,
            "step",
            geometry.n,
            *numbers,
            _X,
            gate_products,
            candidate_products,
            _BIAS,
            *geometry.mask,
            previous,
            state,
            OutputArg(0),
            OutputArg(1),
        )
    return sequence


@kernel("cuda", "gru_sequence_grad")
def backward(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """Backpropagation through time, and the gradients of the weights from all time steps at once."""
    geometry = _GruGeometry(ins, attrs)
    if geometry.text is None:
        return None
    samples, rows = geometry.samples, geometry.steps * geometry.samples
    runners: dict[tuple[str, int], KernelFn] = {}
    for width in (2, 1):
        weight_product = matmul(
            (geometry.spec(rows), geometry.spec(rows, width)),
            (geometry.spec(geometry.units, width),),
            {"transpose_a": True},
        )
        products = {
            "all": geometry.product(rows, width),
            "back": geometry.product(samples, width, to_units=True),
            "weights": weight_product,
        }
        runners |= {(name, width): runner for name, runner in products.items() if runner is not None}
    # the bias is added to the input's part of every gate, so its gradient is the sum of that of x
    bias = reduce_launches("sum", Spec((rows, 3 * geometry.units), geometry.x.dtype), outs[2], (0,))
    return _backward_sequence(geometry, runners, bias) if len(runners) == 6 and bias is not None else None


def _backward_sequence(
    geometry: _GruGeometry, runners: dict[tuple[str, int], KernelFn], bias: KernelFn
) -> KernelSequence:
    sequence, samples, units = KernelSequence(), geometry.samples, geometry.units
    rows, n = geometry.steps * samples, geometry.n
    previous_states, reset_state, candidate_products, dq = (geometry.empty(rows, units) for _ in range(4))
    gate_products, dp = (geometry.empty(rows, 2 * units) for _ in range(2))
    through, of_left = (geometry.empty(samples, units) for _ in range(2))
    state = current_device().empty((samples, units), "float64" if geometry.x.dtype == "float64" else "float32")
    after, output_grad, state_grad = (InputArg(4 + geometry.masked + j) for j in range(3))
    gate_weights, candidate_weights = geometry.split_weights(sequence)
    total = rows * units
    geometry.add(
        sequence,
        "shift_states",
        total,
        geometry.index(total),
        geometry.index(samples),
        _FIRST,
        after,
        previous_states,
    )
    sequence.add_kernel(runners["all", 2], (previous_states, gate_weights), (gate_products,))
    geometry.add_reset_state(sequence, rows, 0, gate_products, previous_states, reset_state)
    sequence.add_kernel(runners["all", 1], (reset_state, candidate_weights), (candidate_products,))
    geometry.add(sequence, "begin", n, geometry.count, state_grad, state)
    for position in reversed(range(geometry.steps)):
        rows_of_step = slice(position * samples, (position + 1) * samples)
        time, has_next = (
            geometry.index(geometry.time(position)),
            np.uint32(position != geometry.steps - 1),
        )
        states = previous_states[rows_of_step], output_grad, through, state
        geometry.add(
            sequence,
            "back",
            n,
            geometry.count,
            time,
            geometry.index(position),
            has_next,
            _X,
            gate_products[rows_of_step],
            candidate_products[rows_of_step],
            _BIAS,
            *geometry.mask,
            *states,
            OutputArg(0),
            dp[rows_of_step],
            dq[rows_of_step],
        )
        sequence.add_kernel(runners["back", 1], (dq[rows_of_step], candidate_weights), (of_left,))
        geometry.add(
            sequence,
            "back_left",
            n,
            geometry.count,
            time,
            _X,
            gate_products[rows_of_step],
            _BIAS,
            previous_states[rows_of_step],
            of_left,
            state,
            OutputArg(0),
            dp[rows_of_step],
        )
        sequence.add_kernel(runners["back", 2], (dp[rows_of_step], gate_weights), (through,))
    geometry.add(sequence, "finish", n, geometry.count, state, through, OutputArg(3))
    d_early, d_late = geometry.empty(units, 2 * units), geometry.empty(units, units)
    sequence.add_kernel(runners["weights", 2], (previous_states, dp), (d_early,))
    sequence.add_kernel(runners["weights", 1], (reset_state, dq), (d_late,))
    geometry.add(
        sequence,
        "whole",
        geometry.weights,
        geometry.index(geometry.weights),
        d_early,
        d_late,
        OutputArg(1),
    )
    sequence.add_kernel(bias, (OutputArg(0),), (OutputArg(2),))
    return sequence
