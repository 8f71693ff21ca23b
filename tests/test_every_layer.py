"""Every layer, from its own examples: a new layer's tests appear by themselves."""

import pytest

from prototorch import layers
from prototorch.engine.backends.cpu import cpu
from prototorch.engine.harness import CHECKS, cases
from prototorch.layers.base import Layer

SHIPPED = [c for c in Layer.members().values() if c.__module__.startswith(layers.__name__)]


@pytest.mark.parametrize("layer", SHIPPED, ids=lambda c: c.__name__)
def test_has_examples_and_a_manual(layer):
    assert layer.examples
    assert layer.__doc__


@pytest.mark.parametrize("case", list(cases(*SHIPPED)), ids=lambda c: c.id)
@pytest.mark.parametrize("check", list(CHECKS))
def test_every_layer(case, check):
    CHECKS[check](case, cpu())
