"""A planned graph as a runner, perhaps with an elementwise sweep over its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prototorch.backends.cuda.cudnn.library import library_of
from prototorch.backends.cuda.cudnn.plan import Plan
from prototorch.backends.cuda.cudnn.request import Request
from prototorch.backends.cuda.kernels.launch import In, Launches, Out, current, dense
from prototorch.spec import Spec

Where = Mapping[str, In | Out | Any]


class Planned:
    """Runs a plan: ``where`` says which input or output each tensor is (or holds an array of its own)."""

    family = "cudnn"

    def __init__(self, plan: Plan, ins: Sequence[Spec], where: Where, after: Launches | None = None):
        self.plan, self.where, self.after = plan, dict(where), after
        self.plain = [s.layout is None for s in ins]

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Run the graph, then the sweep."""
        device = self.plan.library.device
        inputs = [dense(device, a) if plain else a for a, plain in zip(inputs, self.plain, strict=True)]

        given = {}
        for name, place in self.where.items():
            if isinstance(place, In):
                place = inputs[place.number]
            elif isinstance(place, Out):
                place = outputs[place.number]
            given[name] = device.pointer(place)
        self.plan(given)
        if self.after is not None:
            self.after(inputs, outputs)


def planned(request: Request, ins: Sequence[Spec], where: Where, after: Launches | None = None) -> Planned | None:
    """The runner of a request on the device that kernels are being prepared for; None where cuDNN does not take it."""
    library = library_of(current())
    plan = None if library is None else library.plan(request)
    if plan is None:
        return None
    current().reserve(plan.workspace)
    return Planned(plan, ins, where, after)
