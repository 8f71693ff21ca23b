"""The memory of a step: what its plan needs, what is free, and which batch would fit; known before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from prototorch.engine.backends.core import Backend
from prototorch.errors import ResourceError
from prototorch.graph.memory_planner import align_up
from prototorch.graph.net import Net
from prototorch.graph.plan import Plan
from prototorch.runtime.variables import METRIC_PREFIX, SLOT_PREFIX, total_bytes
from prototorch.spec import Spec

LAYERS_SHOWN = 3  # layers that the error about a plan that does not fit names
SCRATCH = "kernels' scratch"


class MemoryEstimate(NamedTuple):
    """Bytes that a plan allocates: its arena, its inputs, weights and optimizer slots that do not exist yet, and the
    scratch memory of its kernels, as far as it is known."""

    arena: int
    inputs: int
    weights: int
    slots: int
    scratch: int = 0

    @property
    def total(self) -> int:
        """The sum."""
        return sum(self)

    def __str__(self) -> str:
        parts = {
            "activations and gradients": self.arena,
            "weights": self.weights,
            "optimiser": self.slots,
            "inputs": self.inputs,
            SCRATCH: self.scratch,
        }
        return ", ".join(f"{name} {format_bytes(n)}" for name, n in parts.items() if n)


def estimate_memory(
    plan: Plan, missing: Mapping[str, Spec], arena: int = 0, copies: int = 1, scratch: int = 0
) -> MemoryEstimate:
    """The memory that a plan allocates.

    missing: the variables that do not exist yet. arena: bytes of an existing arena that it may share. copies: buffers
    of each input. scratch: bytes of its kernels' scratch memory.
    """
    slots = total_bytes(s for name, s in missing.items() if name.startswith(SLOT_PREFIX))
    return MemoryEstimate(
        (plan.arena_bytes if plan.arena_bytes > arena else 0) + plan.persistent_bytes,
        copies * total_bytes(v.spec for v in plan.inputs.values()),
        total_bytes(missing.values()) - slots,
        slots,
        scratch,
    )


def bytes_by_purpose(plan: Plan, copies: int = 1, scratch: int | None = None) -> dict[str, int]:
    """Bytes of a step by purpose. copies: buffers of each input. scratch: bytes of its kernels' scratch memory, None
    where they are not known."""
    states = list(plan.states.values())
    slots = total_bytes(v.spec for v in states if v.name.startswith(SLOT_PREFIX))
    weights = total_bytes(v.spec for v in states if not v.name.startswith((SLOT_PREFIX, METRIC_PREFIX)))
    input_bytes = copies * total_bytes(v.spec for v in plan.inputs.values())
    return {
        "activations": plan.phase_bytes("forward"),
        "gradients": plan.phase_bytes("backward") + plan.phase_bytes("update"),
        "both, sharing memory": plan.arena_bytes,
        **({"saved, computed again": plan.saved_bytes} if plan.saved_bytes else {}),
        **({"kept between runs": plan.persistent_bytes} if plan.persistent_bytes else {}),
        "weights": weights,
        "optimizer": slots,
        "inputs": input_bytes,
        **({SCRATCH: scratch} if scratch is not None else {}),
        "total": plan.arena_bytes + plan.persistent_bytes + weights + slots + input_bytes + (scratch or 0),
    }


def bytes_by_layer(net: Net, plan: Plan) -> dict[str, tuple[int, int]]:
    """For each layer the bytes of its outputs in the forward pass, and of its weights with their optimizer slots."""
    names = {node.name for node in net.nodes}
    keys = sorted({node.weights_key: node.name for node in reversed(net.nodes)}.items(), key=lambda k: -len(k[0]))
    bytes_of_layers = {node.name: [0, 0] for node in net.nodes}
    for step in plan.steps:
        if step.node.phase == "forward" and step.node.scope in names:
            outputs = (v for v in step.outputs if plan.allocations[v].kind == "arena")
            bytes_of_layers[step.node.scope][0] += sum(align_up(v.spec.nbytes) for v in outputs)
    for name, value in plan.states.items():
        owner = next((layer for key, layer in keys if name.removeprefix(SLOT_PREFIX).startswith(key + "/")), None)
        if owner is not None:
            bytes_of_layers[owner][1] += value.spec.nbytes
    return {name: (a, w) for name, (a, w) in bytes_of_layers.items()}


def memory_error(net: Net, plan: Plan, need: MemoryEstimate, free: int, what: str, fits: int | None) -> ResourceError:
    """The error about a plan that does not fit. fits: a batch size that would fit, None where there is none."""
    advice = f"A batch of {fits} would fit" if fits is not None else "Not even a batch of 1 would fit"
    return ResourceError(f"{_describe_need(net, plan, need, free, what)}. {advice}")


def check_plan_fits(net: Net, plan: Plan, backend: Backend, what: str) -> None:
    """Raise ResourceError, before anything is allocated, where a plan whose weights exist would not fit in memory.

    what: the computation, as the error names it.
    """
    need = estimate_memory(plan, {}, copies=0, scratch=backend.scratch_bytes(plan.signatures()) or 0)
    free = backend.free_bytes()
    if free is not None and need.total > free:
        raise ResourceError(_describe_need(net, plan, need, free, what))


def _describe_need(net: Net, plan: Plan, need: MemoryEstimate, free: int, what: str) -> str:
    """What a plan needs, what is free, and its largest layers."""
    largest = sorted(bytes_by_layer(net, plan).items(), key=lambda item: -sum(item[1]))[:LAYERS_SHOWN]
    layers = ", ".join(
        f"{name} ({_format_layer_bytes(activations, weights)})"
        for name, (activations, weights) in largest
        if activations or weights
    )
    return (
        f"{what} needs {format_bytes(need.total)} of memory ({need}), {format_bytes(free)} are free. "
        f"The largest layers: {layers}"
    )


def weights_memory_error(net: Net, missing: Mapping[str, Spec], free: int) -> ResourceError:
    """The error about weights that do not fit, whatever the batch."""
    largest = sorted(missing.items(), key=lambda item: -item[1].nbytes)[:LAYERS_SHOWN]
    largest_text = ", ".join(f"{name} {list(spec.shape)} ({format_bytes(spec.nbytes)})" for name, spec in largest)
    return ResourceError(
        f"the weights of {net.name!r} need {format_bytes(total_bytes(missing.values()))} of memory, "
        f"{format_bytes(free)} are free. The largest: {largest_text}"
    )


def largest_batch(batch: int, fits: Callable[[int], bool]) -> int | None:
    """The first of batch / 2, batch / 4, ..., 1 that fits; None where none does."""
    return next((n for n in _halves(batch) if fits(n)), None)


def _halves(batch: int) -> Iterable[int]:
    while batch > 1:
        batch //= 2
        yield batch


def _format_layer_bytes(activations: int, weights: int) -> str:
    parts = {"activations": activations, "weights and optimiser": weights}
    return ", ".join(f"{name} {format_bytes(n)}" for name, n in parts.items() if n)


def format_bytes(count: int) -> str:
    """A number of bytes with a binary unit: 12 B, 3.4 KiB, 1.5 GiB."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
