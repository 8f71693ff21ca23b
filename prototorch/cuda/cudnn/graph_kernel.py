"""A planned cuDNN graph as a kernel, optionally with an elementwise kernel over its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prototorch.cuda.cudnn.context import get_context
from prototorch.cuda.cudnn.execution_plan import ExecutionPlan
from prototorch.cuda.cudnn.graph_desc import GraphDesc
from prototorch.cuda.kernels.launch import (
    InputArg,
    LaunchSequence,
    OutputArg,
    current_device,
    ensure_contiguous,
)
from prototorch.spec import Spec

__all__ = ["GraphKernel", "make_graph_kernel"]

TensorBindings = Mapping[str, InputArg | OutputArg | Any]


class GraphKernel:
    """Executes a plan. ``bindings``: for each tensor of the graph the input or output that it is, or a device array."""

    family = "cudnn"

    def __init__(
        self, plan: ExecutionPlan, ins: Sequence[Spec], bindings: TensorBindings, epilogue: LaunchSequence | None = None
    ):
        self.plan, self.bindings, self.after = plan, dict(bindings), epilogue
        self._in_default_layout = [s.layout is None for s in ins]

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Execute the graph, then the elementwise kernel."""
        device = self.plan.context.device
        inputs = [
            ensure_contiguous(device, a) if is_contiguous else a
            for a, is_contiguous in zip(inputs, self._in_default_layout, strict=True)
        ]

        addresses = {}
        for name, array in self.bindings.items():
            if isinstance(array, InputArg):
                array = inputs[array.index]
            elif isinstance(array, OutputArg):
                array = outputs[array.index]
            addresses[name] = device.pointer(array)
        self.plan(addresses)
        if self.after is not None:
            self.after(inputs, outputs)


def make_graph_kernel(
    desc: GraphDesc, ins: Sequence[Spec], bindings: TensorBindings, epilogue: LaunchSequence | None = None
) -> GraphKernel | None:
    """The kernel of a graph on the current device; None where cuDNN does not support the graph. With ``autotune`` its
    plans are timed here, but not in a dry run: whoever only asks for a kernel's name or memory measures nothing."""
    device = current_device()
    context = get_context(device)
    plan = None if context is None else context.get_plan(desc, may_measure=not getattr(device, "is_dry_run", False))
    if plan is None:
        return None
    device.reserve(plan.workspace)
    return GraphKernel(plan, ins, bindings, epilogue)
