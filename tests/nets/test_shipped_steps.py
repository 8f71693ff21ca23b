"""A training step, an evaluation and a prediction of every shipped model: native kernels beside NumPy."""

from dataclasses import replace

import pytest

import prototorch as pt
from prototorch.base.package_files import shipped_models
from prototorch.engine.backends.cpu import native
from prototorch.graph.net_writer import net_fields
from prototorch.text.syntax_tree import Body, Field
from prototorch.text.writer import format_fields
from tests.nets.random_nets import RandomModel
from tests.nets.trained_levels import Yard, data_of, run

pytestmark = [
    pytest.mark.skipif(native.unavailable_reason() is not None, reason="no native kernels here"),
    pytest.mark.filterwarnings("ignore:data. the targets of:prototorch.data.checks.DataWarning"),  # they are random
    pytest.mark.filterwarnings("ignore:the schedule:prototorch.errors.ModelWarning"),  # it is for the text's own epochs
]

#: the size of pictures, where a model's own is more than a test needs; weights behind them become fewer too
SMALLER = {
    **dict.fromkeys(("resnet18", "resnet50", "resnet101", "mobilenet_v2", "densenet121", "squeezenet"), 64),
    "alexnet": 95, "vgg16": 64, "googlenet": 192,
}  # fmt: skip
QUICK = ("lenet", "lstm", "multi_task")


def small(name: str) -> RandomModel:
    """The model for two samples in one step."""
    given = {"classes": 10} if name in SMALLER else {"vocabulary": 100, "length": 16} if name == "transformer" else {}
    model = pt.load_model(name, **given)
    size = SMALLER.get(name)
    inputs = tuple(replace(i, shape=(i.shape[0], size, size)) if size else i for i in model.net.inputs)
    net = replace(model.net, inputs=inputs, preprocess=(), augment=())
    block = model.compile_block
    losses = [one.replace(target=None, output=one.output or net.outputs[0]) for one in block.loss]
    block = block.replace(loss=losses, device="cpu", precision="fp32")
    text = format_fields([*net_fields(net), Field("compile", Body(tuple(block.to_fields())))])
    counts = {n: count for n, (_, count) in net.index_inputs().items()}
    return RandomModel(len(name), text, net, block, 2, 2, 1, counts)


def agree(name: str) -> None:
    made = small(name)
    data = data_of(made)
    yard = Yard(made, data, "numpy")
    assert not yard.wild
    assert not yard.mistakes(run(made, data, "native"))


@pytest.mark.parametrize("name", QUICK)
def test_a_step_of_some(name):
    agree(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(shipped_models().keys() - set(QUICK)))
def test_a_step_of_the_others(name):
    agree(name)
