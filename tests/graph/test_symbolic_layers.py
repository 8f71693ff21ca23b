"""Functions of symbolic tensors in a model are the layers that name them (`Layer.symbolic_function`)."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.base.index import entries
from prototorch.eager.registry import FUNCTIONS
from prototorch.errors import UsageError

NAMED = [entry for entry in entries("layer") if "symbolic_function" in entry.facts]


@pytest.mark.parametrize("entry", NAMED, ids=lambda entry: entry.name)
def test_a_layer_that_names_a_function_computes_it(entry):
    """The net's prediction equals the function of tensors, which does not come by way of a layer."""
    name = entry.facts["symbolic_function"]
    function = FUNCTIONS[name]
    inputs = entry.load().inputs
    count = (
        max(inputs) if isinstance(inputs, tuple) and None not in inputs else 2 if isinstance(inputs, tuple) else inputs
    )
    shape = (2, 2) if name == "matmul" else (4,)
    rng = np.random.default_rng(3)
    arrays = [rng.uniform(0.5, 2, (3, *shape)).astype("float32") for _ in range(count)]
    if name == "where":
        symbols = [pt.Input(shape) for _ in range(2)]
        arrays = arrays[:2]
        y = pt.where(symbols[0] > symbols[1], *symbols)
        tensors = [pt.tensor(a) for a in arrays]
        expected = pt.where(tensors[0] > tensors[1], *tensors)
    elif name.startswith("logical"):
        symbols = [pt.Input(shape) for _ in range(count)]
        y = function(*(s > 1.0 * symbols[0] for s in symbols))
        tensors = [pt.tensor(a) for a in arrays]
        expected = function(*(t > tensors[0] for t in tensors))
    else:
        symbols = [pt.Input(shape) for _ in range(count)]
        y = function(*symbols)
        expected = function(*map(pt.tensor, arrays))
    model = pt.Model(symbols, y)
    assert any(type(node.layer) is entry.load() for node in model.net.nodes)
    values = np.asarray(model.predict_on_batch(arrays if count > 1 else arrays[0]))
    np.testing.assert_allclose(values, expected.numpy(), rtol=1e-6)


def test_a_function_that_is_no_layer_says_so():
    x = pt.Input((4,))
    with pytest.raises(UsageError, match=r"the function atan2 .* no layer of a net"):
        pt.Model(x, pt.atan2(x, x))
