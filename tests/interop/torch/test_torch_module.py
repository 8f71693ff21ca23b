"""Our nets in PyTorch: every layer that is translated gives what ours gives, and what is not is told by name."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.engine.backends.cpu import cpu
from prototorch.engine.harness.case import Case, cases
from prototorch.engine.harness.layer_graph import CompiledLayer, named_outputs, trace_layer
from prototorch.errors import UsageError
from prototorch.graph.ir import Graph
from prototorch.graph.trace import RANDOM_KEY
from prototorch.interop.counterparts.row import counterpart_of
from prototorch.interop.counterparts.torch.row import TorchRow
from prototorch.interop.torch import torch_loss, torch_module
from prototorch.layers.recurrent_cell import RecurrentCell
from prototorch.model.load import model_from_text
from prototorch.model.loading.layout.layout_table import NotExpressibleError
from prototorch.spec import Spec
from prototorch.train.step_inputs import PREDICT
from prototorch.train.summary import step_specs
from prototorch.train.synthetic_batch import make_synthetic_batch

CASES = [c for c in cases() if False in c.phases]
#: examples that ask for what PyTorch says otherwise; each is refused with its reason
REFUSED = {
    "AveragePooling1D-1", "AveragePooling2D-1", "AveragePooling3D-1",
    "Bidirectional-2", "Bidirectional-3", "Bidirectional-4", "Dropout-1", "GRU-1", "GRU-3", "GRU-4",
    "LSTM-3", "LSTM-4", "LSTM-5", "LayerNormalization-2", "MultiHeadAttention-3", "MultiHeadAttention-5",
    "SimpleRNN-3", "UpSampling2D-1", "UpSampling2D-2",
}  # fmt: skip
#: layers without a row whose ops, as they are written, differ in training (dropout inside attention), and a sum over
#: the batch that keeps its axis
REFUSED_OPS = {"Attention-3", "ReduceSum-2"}
#: float32 sums of at most a few hundred products, and exponentials that two libraries round differently
TOLERANCE = {"rtol": 2e-5, "atol": 2e-6}


def _is_beyond_ops(case: Case) -> bool:
    """Whether a layer without a row does more than compute: it has weights, draws random numbers, does something else
    in training, or gives one number for the whole batch."""
    row = counterpart_of("torch", case.layer)
    if isinstance(row, TorchRow) and row.module is not None and not isinstance(case.instance, RecurrentCell):
        return False
    recordings = []
    for training in (False, True):
        graph = Graph()
        recording = trace_layer(graph, case.instance, case.specs("float32"), training, "float32")
        recordings.append(([n.op for n in graph.nodes], recording))
    (predicting, recording), (training_ops, in_training) = recordings
    differs = predicting != training_ops or bool(in_training.trace.losses)
    batch = case.specs("float32")[0].shape[0]
    whole = any(not v.ndim or v.shape[0] % batch for v in named_outputs(recording).values())
    return bool(case.weights("float32")) or differs or whole or RANDOM_KEY in recording.trace.graph.inputs


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_a_translated_layer_gives_what_ours_gives(case: Case):
    graph, specs = Graph(), case.specs("float32")
    said = trace_layer(graph, case.instance, specs, False, "float32")
    weights, inputs = case.weights("float32"), case.inputs("float32")
    weights = {k: np.abs(w) + 0.5 if "variance" in k else w for k, w in weights.items()}
    ours = CompiledLayer(said, named_outputs(said), cpu("plain"), weights)(inputs)
    own = {n.removeprefix("layer/"): w for n, w in weights.items()}
    if case.id in REFUSED or case.instance.own_settings():
        with pytest.raises(NotExpressibleError):
            torch_module.make_module(case.instance, own, specs)
        return
    if case.id in REFUSED_OPS or _is_beyond_ops(case):
        with pytest.raises(NotExpressibleError, match="no module stands for it"):
            torch_module.make_module(case.instance, own, specs)
        return
    part = torch_module.make_module(case.instance, own, specs).eval()
    with torch.inference_mode():
        made = part(*map(torch.from_numpy, inputs))
    for mine, theirs in zip(ours.values(), made if isinstance(made, tuple) else (made,), strict=True):
        np.testing.assert_allclose(mine, theirs.numpy(), **TOLERANCE)


@pytest.mark.parametrize("name", ["siamese", "multi_task", "autoencoder", "lstm", "squeezenet"])
def test_a_whole_net_agrees_and_trains_as_many_elements(name: str):
    model = pt.load_model(name)
    program, specs = model.trainer.plan_cache, step_specs(model.net, 2)
    runner = program.executor(PREDICT, specs)
    inputs = make_synthetic_batch(program, runner.plan, specs)
    twin = torch_module.torch_net(model.net, specs, model.weights).eval()
    with torch.inference_mode():
        theirs = twin(**{k: torch.from_numpy(v) for k, v in inputs.items()})
    for output, mine in runner(inputs).items():
        scale = np.abs(mine).max()
        np.testing.assert_allclose(mine / scale, theirs[output].numpy() / scale, atol=1e-4)  # sums over deep nets
    assert twin.count_trainable() == sum(w.size for w in model.weights.values())


def test_weights_that_are_shared_are_one_module():
    model = pt.load_model("siamese")
    twin = torch_module.torch_net(model.net, step_specs(model.net, 2), model.weights)
    assert twin.steps[2][0] == twin.steps[6][0] == "layer tower/hidden"


def test_every_layer_that_is_not_translated_is_named():
    model = model_from_text(
        'name: "odd"\ninput { name: "a"  shape: [4, 6] }\nGaussianNoise { name: "n"  stddev: 0.1 }\n'
        'GRU { name: "g"  units: 2  reset_after: false }\n'
        'Dense { name: "d"  units: 2  kernel_regularizer: L2 { l2: 0.1 } }\n'
    )
    with pytest.raises(UsageError) as told:
        torch_module.torch_net(model.net, {"a": Spec((2, 4, 6))}, model.weights)
    text = str(told.value)
    assert text.startswith("'odd' cannot be built in PyTorch here: GaussianNoise 'n': no module stands for it; ")
    assert "GRU 'g': reset_after: false" in text
    assert "Dense 'd': kernel_regularizer" in text


def _with_loss(shape: list[int], text: str) -> pt.Model:
    return model_from_text(
        f'input {{ name: "a"  shape: {shape} }}\nLinear {{ name: "y" }}\ncompile {{ loss: {text} }}\n'
    )


LOSSES = {
    "sparse_categorical_crossentropy { from_logits: true }": ((4, 5), "classes"),
    "sparse_categorical_crossentropy { from_logits: true  axis: 1 }": ((4, 5, 3), "classes"),
    "sparse_categorical_crossentropy { }": ((4, 5), "classes"),
    "categorical_crossentropy { from_logits: true }": ((4, 5), "one_hot"),
    "binary_crossentropy { from_logits: true }": ((4, 3), "binary"),
    "binary_crossentropy { }": ((4, 3), "binary"),
    "mse { }": ((4, 3), "values"),
    "mae { }": ((4, 3, 2), "values"),
}


@pytest.mark.parametrize("text", LOSSES)
def test_a_translated_loss_gives_what_ours_gives(text: str):
    shape, kind = LOSSES[text]
    model = model_from_text(
        f'input {{ name: "a"  shape: {list(shape[1:])} }}\nLinear {{ name: "y" }}\ncompile {{ loss: {text} }}\n'
    )
    rng = np.random.default_rng(0)
    output = rng.standard_normal(shape).astype(np.float32)
    if "from_logits" not in text and kind in ("classes", "binary"):
        output = rng.uniform(0.05, 0.9, shape).astype(np.float32)
    axis = 1 if "axis: 1" in text else -1
    target = rng.standard_normal(shape).astype(np.float32)
    if kind == "classes":
        target = rng.integers(0, shape[axis], tuple(n for i, n in enumerate(shape) if i != axis % len(shape)))
    elif kind == "one_hot":
        target = np.eye(shape[-1], dtype=np.float32)[rng.integers(0, shape[-1], shape[0])]
    elif kind == "binary":
        target = rng.integers(0, 2, shape).astype(np.float32)
    ours = model.evaluate(output, target, batch_size=4)["loss"]
    work = torch_loss.torch_losses(model.trainer.plan_cache.loss_terms)
    theirs = work({"y": torch.from_numpy(output)}, {"y": torch.from_numpy(target)})
    assert float(theirs) == pytest.approx(ours, rel=1e-5)  # a mean of a few float32 numbers


@pytest.mark.parametrize("text", ["hinge", "sparse_categorical_crossentropy { from_logits: true  ignore_class: 0 }"])
def test_a_loss_that_is_not_translated_is_named(text: str):
    model = _with_loss([3], text)
    with pytest.raises(UsageError, match=r"the loss .* cannot be built in PyTorch here; --phase predict"):
        torch_loss.torch_losses(model.trainer.plan_cache.loss_terms)
