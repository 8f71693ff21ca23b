"""Recurrent sequences with one launch for each time step: the product of the state and the cell in one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.cuda.cudnn import persistent_recurrent  # noqa: F401 - its kernels are tried before these
from prototorch.cuda.cudnn.matmul import matmul
from prototorch.cuda.cudnn.recurrent import KernelSequence, SequenceGeometry
from prototorch.cuda.kernels.candidates import candidate_enabled
from prototorch.cuda.kernels.launch import (
    InputArg,
    KernelLaunch,
    OutputArg,
    current_device,
    grid_stride_launch,
    per_block_launch,
)
from prototorch.cuda.kernels.recurrent_cells import CELLS
from prototorch.cuda.kernels.recurrent_fused import (
    MAX_ELEMENTS,
    SPLIT,
    TILE,
    count_tiles,
    fused_cell_sources,
)
from prototorch.cuda.kernels.reduce import reduce_launches
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.spec import Spec

Specs = tuple[Spec, ...]
CANDIDATE = "recurrent_step"


class _FusedGeometry(SequenceGeometry):
    """The sizes of a sequence and the sources of its fused kernels; ``texts`` is None where they do not apply."""

    def __init__(self, name: str, ins: Specs, attrs: dict[str, Any]):
        super().__init__(name, ins, attrs)
        if self.texts is not None:
            activations = attrs.get("activation", "tanh"), attrs.get("recurrent_activation", "sigmoid")
            small = int(self.count) <= MAX_ELEMENTS
            arguments = name, self.units, self.steps, self.x.dtype, self.masked, *activations, self.largest
            self.texts = fused_cell_sources(*arguments) if small else None

    def launch(self, text: str, name: str, *args: Any) -> KernelLaunch:
        """A launch of a step's kernel, which begins with the numbers of tiles and of samples."""
        tiles = count_tiles(self.samples, self.units)
        sizes = (self.index(v) for v in (tiles, self.samples))
        return per_block_launch(text, name, tiles, *sizes, *args, block=SPLIT * TILE * TILE)


def _register(name: str) -> None:
    @kernel("cuda", name, special=True)
    def forward(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
        """The sequence of time steps."""
        geometry = _FusedGeometry(name, ins, attrs) if candidate_enabled(CANDIDATE) else None
        if geometry is None or geometry.texts is None:
            return None
        sequence = KernelSequence()
        alls = [OutputArg(0), *(OutputArg(1 + geometry.states + j) for j in range(geometry.states - 1))]
        first = [InputArg(geometry.first + j) for j in range(geometry.states)]
        states = [a for j in range(geometry.states) for a in (alls[j], OutputArg(1 + j))]
        for position in range(geometry.steps):
            numbers = (geometry.index(v) for v in (geometry.time(position), position))
            args = (*numbers, InputArg(0), InputArg(1), *geometry.extra, *first, *states)
            sequence.steps.append(geometry.launch(geometry.texts[0], "step", *args))
        return sequence

    @kernel("cuda", f"{name}_grad", special=True)
    def backward(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
        """Backpropagation through time, and the gradients of the weights from all time steps at once."""
        geometry = _FusedGeometry(name, ins, attrs) if candidate_enabled(CANDIDATE) else None
        if geometry is None or geometry.texts is None:
            return None
        flat = Spec((geometry.steps * geometry.samples, geometry.units), geometry.x.dtype)
        wide = Spec((flat.shape[0], geometry.gates * geometry.units), geometry.x.dtype)
        products = (
            matmul((flat, ins[1]), (wide,), {}),
            matmul((geometry.inner, ins[1]), (geometry.state,), {"transpose_b": True}),
            matmul((flat, wide), (outs[1],), {"transpose_a": True}),
        )
        bias = reduce_launches("sum", wide, outs[2], (0,)) if geometry.biased else None
        if None in products or (geometry.biased and bias is None):
            return None
        return _backward_sequence(geometry, products, bias)


def _backward_sequence(geometry: _FusedGeometry, products: Any, bias: KernelFn | None) -> KernelSequence:
    assert geometry.texts is not None
    gate_product, to_state, weights = products
    sequence, device, text = KernelSequence(), current_device(), geometry.texts[1]
    kind = "float64" if geometry.x.dtype == "float64" else "float32"
    width = geometry.gates * geometry.units
    previous_states = device.empty((geometry.steps * geometry.samples, geometry.units), geometry.x.dtype)
    p, dp = (device.empty((geometry.steps, geometry.samples, width), geometry.x.dtype) for _ in range(2))
    state_product = device.empty(geometry.state.shape, geometry.x.dtype)
    state_grads = [device.empty(geometry.state.shape, kind) for _ in range(geometry.states)]
    all_states = geometry.mask + geometry.masked  # the index of the first state after each step among the inputs
    output_grad, n = all_states + geometry.states, int(geometry.count)
    total = geometry.steps * n
    counts = geometry.index(total), geometry.index(geometry.samples)
    states = (InputArg(geometry.first), InputArg(all_states), previous_states)
    sequence.steps.append(grid_stride_launch(text, "shift_states", total, *counts, *states))
    sequence.add_kernel(gate_product, (previous_states, InputArg(1)), (p.reshape(-1, width),))
    for j, d in enumerate(state_grads):
        args = geometry.index(n), InputArg(output_grad + 1 + j), d
        sequence.steps.append(grid_stride_launch(text, "begin", n, *args))
    triples = [(InputArg(geometry.first + j), InputArg(all_states + j), d) for j, d in enumerate(state_grads)]
    for position in reversed(range(geometry.steps)):
        has_next = position != geometry.steps - 1
        numbers = (geometry.index(v) for v in (geometry.time(position), position))
        rest = (InputArg(output_grad), dp[position + has_next], InputArg(1), OutputArg(0), dp[position])
        args = (*numbers, np.uint32(has_next), InputArg(0), p[position], *geometry.extra)
        sequence.steps.append(geometry.launch(text, "back", *args, *(a for triple in triples for a in triple), *rest))
    sequence.add_kernel(to_state, (dp[0], InputArg(1)), (state_product,))
    for j, d in enumerate(state_grads):
        product = np.uint64(0) if j else state_product
        target = OutputArg(2 + geometry.biased + j)
        sequence.steps.append(grid_stride_launch(text, "finish", n, geometry.index(n), d, product, target))
    flat = dp.reshape(-1, width)
    sequence.add_kernel(weights, (previous_states, flat), (OutputArg(1),))
    if bias is not None:
        sequence.add_kernel(bias, (flat,), (OutputArg(2),))
    return sequence


for _name in CELLS:
    _register(_name)
