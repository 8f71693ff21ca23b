"""A planned graph as a runner, perhaps with an elementwise sweep over its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prototorch.backends.cuda.cudnn.context import get_context
from prototorch.backends.cuda.cudnn.execution_plan import ExecutionPlan
from prototorch.backends.cuda.cudnn.graph_desc import GraphDesc
from prototorch.backends.cuda.kernels.launch import (
    InputArg,
    LaunchSequence,
    OutputArg,
    current_device,
    ensure_contiguous,
)
from prototorch.spec import Spec

TensorBindings = Mapping[str, InputArg | OutputArg | Any]


class GraphKernel:
    """Runs a plan: ``where`` says which input or output each tensor is (or holds an array of its own)."""

    family = "cudnn"

    def __init__(
        self, plan: ExecutionPlan, ins: Sequence[Spec], where: TensorBindings, after: LaunchSequence | None = None
    ):
        self.plan, self.bindings, self.after = plan, dict(where), after
        self.plain = [s.layout is None for s in ins]

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Run the graph, then the sweep."""
        device = self.plan.context.device
        inputs = [ensure_contiguous(device, a) if plain else a for a, plain in zip(inputs, self.plain, strict=True)]

        given = {}
        for name, place in self.bindings.items():
            if isinstance(place, InputArg):
                place = inputs[place.index]
            elif isinstance(place, OutputArg):
                place = outputs[place.index]
            given[name] = device.pointer(place)
        self.plan(given)
        if self.after is not None:
            self.after(inputs, outputs)


def make_graph_kernel(
    request: GraphDesc, ins: Sequence[Spec], where: TensorBindings, after: LaunchSequence | None = None
) -> GraphKernel | None:
    """The runner of a request on the device that kernels are being prepared for; None where cuDNN does not take it."""
    library = get_context(current_device())
    plan = None if library is None else library.get_plan(request)
    if plan is None:
        return None
    current_device().reserve(plan.workspace)
    return GraphKernel(plan, ins, where, after)
