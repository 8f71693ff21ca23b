"""No layer of the library and no optimiser is left to a slower level: the plans of all examples, with gradients."""

import numpy as np
import pytest

from prototorch import layers
from prototorch.engine.backends.cpu import cpu, native
from prototorch.engine.harness.case import cases
from prototorch.engine.harness.layer_graph import differentiate, named_outputs, trace_layer
from prototorch.graph.ir import Graph
from prototorch.graph.plan import make_plan
from prototorch.layers.base import Layer

if native.unavailable_reason() is not None:
    pytest.skip("no native level here", allow_module_level=True)
COMPILED_IN_NUMPY = {"searchsorted"}  # a binary search for each value
SHIPPED = [c for c in Layer.members().values() if c.__module__.startswith(layers.__name__)]


@pytest.mark.parametrize("case", list(cases(*SHIPPED)), ids=lambda c: c.id)
def test_every_step_is_native(case):
    backend = cpu("native")
    for training in case.phases:
        one = trace_layer(Graph(), case.instance, case.specs("float32"), training, "float32", case.mask())
        wanted = named_outputs(one)
        if case.extra("gradient", True) and one.variables and (wanted or one.trace.losses):
            if one.trace.losses or any(v.spec.is_float for v in one.outputs):
                differentiate(one, {n: np.zeros(v.shape, v.dtype) for n, v in one.variables.items()}, case.seed)
            wanted |= {f"d{n}": g for n, g in one.grads.items()}
        plan = make_plan(one.trace.graph, wanted, one.trace.updates, backend)
        slow = {
            op.name for op, *said in plan.signatures() if backend.choose_kernel(op, *said).level in ("numpy", "plain")
        } - COMPILED_IN_NUMPY
        assert not slow, f"training={training}"
