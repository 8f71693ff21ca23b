"""Recurrent sequences with one launch for all time steps, for layers of few units."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.cuda.cudnn.matmul import matmul
from prototorch.cuda.cudnn.recurrent import KernelSequence, SequenceGeometry
from prototorch.cuda.kernels.candidates import candidate_enabled
from prototorch.cuda.kernels.launch import (
    BLOCK,
    InputArg,
    KernelLaunch,
    OutputArg,
    current_device,
    grid_stride_launch,
    per_block_launch,
)
from prototorch.cuda.kernels.recurrent_cells import CELLS
from prototorch.cuda.kernels.recurrent_persistent import MAX_UNITS, SAMPLES, persistent_cell_sources
from prototorch.cuda.kernels.reduce import reduce_launches
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.spec import Spec

Specs = tuple[Spec, ...]
CANDIDATE = "recurrent_persistent"


class _PersistentGeometry(SequenceGeometry):
    """The sizes of a sequence and the sources of its kernels; ``texts`` is None where they do not apply."""

    def __init__(self, name: str, ins: Specs, attrs: dict[str, Any]):
        super().__init__(name, ins, attrs)
        if self.texts is not None:
            activations = attrs.get("activation", "tanh"), attrs.get("recurrent_activation", "sigmoid")
            arguments = name, self.units, self.steps, self.x.dtype, self.masked, *activations, self.largest
            self.texts = persistent_cell_sources(*arguments) if self.units <= MAX_UNITS else None

    def launch(self, text: str, name: str, *args: Any) -> KernelLaunch:
        """A launch of a kernel over all steps, which begins with the number of samples and the direction."""
        numbers = self.index(self.samples), np.uint32(self.reverse)
        return per_block_launch(text, name, -(-self.samples // SAMPLES), *numbers, *args, block=BLOCK)


def _register(name: str) -> None:
    @kernel("cuda", name, special=True)
    def forward(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
        """The sequence of time steps."""
        geometry = _PersistentGeometry(name, ins, attrs) if candidate_enabled(CANDIDATE) else None
        if geometry is None or geometry.texts is None:
            return None
        sequence, states = KernelSequence(), range(geometry.states)
        first = [InputArg(geometry.first + j) for j in states]
        alls = [OutputArg(0), *(OutputArg(1 + geometry.states + j) for j in range(geometry.states - 1))]
        outputs = [a for j in states for a in (alls[j], OutputArg(1 + j))]
        args = InputArg(0), InputArg(1), *geometry.extra, *first, *outputs
        sequence.steps.append(geometry.launch(geometry.texts[0], "recurrent_forward", *args))
        return sequence

    @kernel("cuda", f"{name}_grad", special=True)
    def backward(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
        """Backpropagation through time, and the gradients of the weights from all time steps at once."""
        geometry = _PersistentGeometry(name, ins, attrs) if candidate_enabled(CANDIDATE) else None
        if geometry is None or geometry.texts is None:
            return None
        flat = Spec((geometry.steps * geometry.samples, geometry.units), geometry.x.dtype)
        wide = Spec((flat.shape[0], geometry.gates * geometry.units), geometry.x.dtype)
        gate_product = matmul((flat, ins[1]), (wide,), {})
        weights = matmul((flat, wide), (outs[1],), {"transpose_a": True})
        bias = reduce_launches("sum", wide, outs[2], (0,)) if geometry.biased else None
        if gate_product is None or weights is None or (geometry.biased and bias is None):
            return None
        return _backward_sequence(geometry, gate_product, weights, bias, ins[1])


def _backward_sequence(
    geometry: _PersistentGeometry, gate_product: KernelFn, weights: KernelFn, bias: KernelFn | None, u: Spec
) -> KernelSequence:
    assert geometry.texts is not None
    sequence, device, text = KernelSequence(), current_device(), geometry.texts[1]
    rows, width = geometry.steps * geometry.samples, geometry.gates * geometry.units
    previous_states = device.empty((rows, geometry.units), geometry.x.dtype)
    p, dp = (device.empty((rows, width), geometry.x.dtype) for _ in range(2))
    u_transposed = device.empty((width, geometry.units), geometry.x.dtype)
    all_states = geometry.mask + geometry.masked  # the index of the first state after each step among the inputs
    output_grad, total = all_states + geometry.states, rows * geometry.units
    counts = geometry.index(total), geometry.index(geometry.samples)
    boundary = InputArg(geometry.first), InputArg(all_states), previous_states
    sequence.steps.append(grid_stride_launch(text, "shift_states", total, *counts, *boundary))
    sequence.add_kernel(gate_product, (previous_states, InputArg(1)), (p,))
    args = geometry.index(u.size), InputArg(1), u_transposed
    sequence.steps.append(grid_stride_launch(text, "transpose_weights", u.size, *args))
    states = [
        a
        for j in range(geometry.states)
        for a in (
            InputArg(geometry.first + j),
            InputArg(all_states + j),
            InputArg(output_grad + 1 + j),
            OutputArg(2 + geometry.biased + j),
        )
    ]
    rest = InputArg(output_grad), u_transposed, OutputArg(0), dp
    sequence.steps.append(geometry.launch(text, "recurrent_backward", InputArg(0), p, *geometry.extra, *states, *rest))
    sequence.add_kernel(weights, (previous_states, dp), (OutputArg(1),))
    if bias is not None:
        sequence.add_kernel(bias, (dp,), (OutputArg(2),))
    return sequence


for _name in CELLS:
    _register(_name)
