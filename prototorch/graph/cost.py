"""What an op costs, from its specs alone: floating-point operations, and bytes that must be read or written.

Products are exact: a convolution, its gradients, a matrix product, a recurrent sequence and attention count one
multiplication and one addition for each pair of numbers that meet, whatever the kernel does (so a Winograd kernel may
reach more than the machine's peak). Everything else counts one operation for each element and each op it is said in;
an exponential is one operation. The bytes are those of the inputs and outputs, each once: what a kernel with an endless
cache would move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

from prototorch.ops.core import Op, decomposition
from prototorch.spec import Spec

Specs = tuple[Spec, ...]


@dataclass(frozen=True)
class Cost:
    """Floating-point operations, and bytes moved."""

    flops: int = 0
    nbytes: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.nbytes + other.nbytes)

    def seconds(self, flops: float, bandwidth: float) -> float:
        """The least time on a machine of so many operations and bytes a second (Williams' roofline)."""
        return max(self.flops / flops, self.nbytes / bandwidth)


def estimate_cost(op: Op, ins: Specs, outs: Specs, attrs: Mapping[str, Any]) -> Cost:
    """The cost of an op, or of a fused group: its operations, and the bytes of what goes in and out."""
    return _estimate_cost(op, ins, outs, tuple(sorted(attrs.items())))


@lru_cache(maxsize=4096)
def _estimate_cost(op: Op, ins: Specs, outs: Specs, items: tuple[tuple[str, Any], ...]) -> Cost:
    attrs = dict(items)
    if op.is_view:
        return Cost()
    moved = _BYTES.get(op.name)
    return Cost(_flops(op, ins, outs, attrs), moved(ins, outs) if moved else total_bytes(ins) + total_bytes(outs))


def total_bytes(specs: Specs) -> int:
    """Bytes of arrays of these specs."""
    return sum(s.nbytes for s in specs)


def _flops(op: Op, ins: Specs, outs: Specs, attrs: Mapping[str, Any]) -> int:
    rule = _FLOPS.get(op.name)
    if rule is not None:
        return rule(ins, outs, attrs)
    if op.is_composite:
        entries = decomposition(op, ins, attrs)
        return sum(_flops(e.op, _specs(e.inputs), _specs(e.outputs), e.attrs) for e in entries)
    return outs[0].size


def _specs(values: Any) -> Specs:
    return tuple(v.spec for v in values)


def _conv_flops(ins: Specs, outs: Specs, attrs: Mapping[str, Any]) -> int:
    """x [N, C, ...] and w [F, C / groups, *kernel] give y: each output meets a whole filter."""
    return 2 * outs[0].size * prod(ins[1].shape[1:])


def _conv_input_grad_flops(ins: Specs, outs: Specs, attrs: Mapping[str, Any]) -> int:
    return 2 * ins[0].size * prod(ins[1].shape[1:])


def _conv_weight_grad_flops(ins: Specs, outs: Specs, attrs: Mapping[str, Any]) -> int:
    return 2 * ins[1].size * prod(outs[0].shape[1:])


def _matmul_flops(ins: Specs, outs: Specs, attrs: Mapping[str, Any]) -> int:
    return 2 * outs[0].size * ins[0].shape[-2 if attrs.get("transpose_a") else -1]


def _sequence_flops(products: int, each: int) -> Callable[[Specs, Specs, Mapping[str, Any]], int]:
    """x [N, T, gates * units] and recurrent weights [units, gates * units]: so many products of the state with the
    weights in each step, and so many operations on each gate's number."""

    def rule(ins: Specs, outs: Specs, attrs: Mapping[str, Any]) -> int:
        return ins[0].size * (2 * products * ins[1].shape[0] + each)

    return rule


def _zero(ins: Specs, outs: Specs, attrs: Mapping[str, Any]) -> int:
    return 0


def _per_input(ins: Specs, outs: Specs, attrs: Mapping[str, Any]) -> int:
    return ins[0].size


def _per_element(factor: int) -> Callable[[Specs, Specs, Mapping[str, Any]], int]:
    return lambda ins, outs, attrs: factor * outs[0].size


def _pool_flops(ins: Specs, outs: Specs, attrs: Mapping[str, Any]) -> int:
    """Pooling: one operation for each place of each window."""
    return min(ins[0].size, outs[0].size) * prod(attrs["kernel"])


_FLOPS: dict[str, Callable[[Specs, Specs, Mapping[str, Any]], int]] = {
    "conv": _conv_flops,
    "conv_input_grad": _conv_input_grad_flops,
    "conv_weight_grad": _conv_weight_grad_flops,
    "matmul": _matmul_flops,
    # the gradient goes through the weights three times: the gates again, the state's gradient, the weights' gradient
    "simple_rnn_sequence": _sequence_flops(1, 2),
    "simple_rnn_sequence_grad": _sequence_flops(3, 4),
    "lstm_sequence": _sequence_flops(1, 4),
    "lstm_sequence_grad": _sequence_flops(3, 8),
    "lstm_sequence_with_gates": _sequence_flops(1, 4),
    "lstm_sequence_with_gates_grad": _sequence_flops(2, 8),
    "gru_sequence": _sequence_flops(1, 4),
    "gru_sequence_grad": _sequence_flops(3, 8),
    **dict.fromkeys(("avg_pool", "avg_pool_grad", "max_pool"), _pool_flops),
    **dict.fromkeys(
        (
            "sum",
            "mean",
            "max",
            "min",
            "prod",
            "all",
            "any",
            "argmax",
            "argmin",
            "embedding_grad",
            "scatter_add_along_axis",
            "top_k",
            "max_pool_grad",
        ),
        _per_input,
    ),
    **dict.fromkeys(
        (
            "prepack",
            "broadcast_to",
            "cast",
            "concat",
            "crop",
            "flip",
            "full",
            "static_gather",
            "iota",
            "one_hot",
            "pad",
            "gather_pool_indices",
            "relabel",
            "reorder",
            "reshape",
            "static_scatter_add",
            "slice",
            "stop_gradient",
            "take",
            "take_along_axis",
            "transpose",
            "slice_grad",
        ),
        _zero,
    ),
    "softmax": _per_element(5),
    "log_softmax": _per_element(5),
    "gelu": _per_element(5),
    "silu": _per_element(3),
    "sigmoid": _per_element(3),
    "affine_sample": _per_element(8),
    "affine_sample_grad": _per_element(8),
    "sgd_update": _per_element(2),
    "momentum_update": _per_element(4),
    "rmsprop_update": _per_element(8),
    "rmsprop_momentum_update": _per_element(10),
    "centered_rmsprop_update": _per_element(12),
    "adagrad_update": _per_element(6),
    "adadelta_update": _per_element(12),
    "adam_update": _per_element(12),
    "amsgrad_update": _per_element(13),
    "nadam_update": _per_element(14),
    "adamax_update": _per_element(10),
    "lion_update": _per_element(9),
}

#: ops that do not touch the whole of an input
_BYTES: dict[str, Callable[[Specs, Specs], int]] = {
    "take": lambda ins, outs: total_bytes(ins[1:]) + 2 * total_bytes(outs),
    "static_gather": lambda ins, outs: total_bytes(ins[1:]) + 2 * total_bytes(outs),
    "take_along_axis": lambda ins, outs: total_bytes(ins[1:]) + 2 * total_bytes(outs),
    "slice": lambda ins, outs: 2 * total_bytes(outs),
    "crop": lambda ins, outs: total_bytes(ins[1:]) + 2 * total_bytes(outs),
}
