"""Caffe's training nets and solvers in our language: losses, metrics, the optimizer, factors of single weights."""

import numpy as np
import pytest

import prototorch as pt
from prototorch.caffe.net import Net
from prototorch.caffe.text.reader import read_message
from prototorch.interop.conversion import convert

NET = """
name: "small"
layer { name: "d" type: "HDF5Data" top: "data" top: "label" hdf5_data_param { source: "no" batch_size: 6 } }
layer {
  name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1" param { lr_mult: 1 decay_mult: 1 }
  param { lr_mult: 2 decay_mult: 0 }
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } }
}
layer { name: "relu" type: "ReLU" bottom: "ip1" top: "ip1" }
layer {
  name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" param { lr_mult: 10 } param { lr_mult: 2 decay_mult: 0 }
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } }
}
"""
SOFTMAX = 'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" loss_weight: 0.5 }'
EUCLIDEAN = 'layer { name: "loss" type: "EuclideanLoss" bottom: "ip2" bottom: "label" top: "loss" }'
SIGMOID = 'layer { name: "loss" type: "SigmoidCrossEntropyLoss" bottom: "ip2" bottom: "label" top: "loss" }'
ACCURACY = """
layer { name: "accuracy" type: "Accuracy" bottom: "ip2" bottom: "label" top: "accuracy" include { phase: TEST } }
layer { name: "top2" type: "Accuracy" bottom: "ip2" bottom: "label" top: "top2" accuracy_param { top_k: 2 } }
"""
SOLVER = """
net: "net.prototxt" test_iter: 7 test_interval: 50 max_iter: 220 base_lr: 0.1 lr_policy: "step" gamma: 0.5 stepsize: 30
momentum: 0.9 weight_decay: 0.005 type: "Nesterov" random_seed: 3 clip_gradients: 2
"""


@pytest.fixture
def converted(tmp_path):
    def run(net, solver=None, shape=(5,)):
        (tmp_path / "net.prototxt").write_text(net)
        (tmp_path / "solver.prototxt").write_text(solver or "")
        source = "net" if solver is None else "solver"
        shapes = {"input_shapes": {"data": list(shape)}}
        result = convert(str(tmp_path / f"{source}.prototxt"), str(tmp_path / "a.proto"), import_options=shapes)
        return pt.load_model(tmp_path / "a.proto"), (tmp_path / "a.proto").read_text(), result.notes

    return run


@pytest.mark.parametrize(
    ("loss", "label"),
    [(SOFTMAX, np.array([0, 2, 1, 1, 0, 2])), (EUCLIDEAN, np.linspace(-1, 1, 18).reshape(6, 3)),
     (SIGMOID, np.arange(18).reshape(6, 3) % 2)],
    ids=["softmax", "euclidean", "sigmoid"],
)  # fmt: skip
def test_the_loss_is_that_of_caffe(loss, label, converted):
    model, _, _ = converted(NET + loss)
    model.build()
    x = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
    data = NET.partition("layer")[0] + "".join(
        f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ {dims} }} }} }}'
        for name, dims in (("data", "dim: [6, 5]"), ("label", f"dim: {list(label.shape)}"))
    )
    net = Net.from_message(read_message(data + _layers(NET) + loss, "NetParameter"), "TRAIN")
    for layer in ("ip1", "ip2"):
        net.params[layer][0].data[...] = np.asarray(model.weights[f"{layer}/kernel"]).T
        net.params[layer][1].data[...] = np.asarray(model.weights[f"{layer}/bias"])
    net.blobs["data"].data[...], net.blobs["label"].data[...] = x, label
    weight = 0.5 if loss is SOFTMAX else 1
    net.forward()
    expected = weight * float(net.blobs["loss"].data)
    y = label.astype(np.int64) if loss is SOFTMAX else label.astype(np.float32)
    assert model.evaluate(x, y, verbose=0, return_dict=True)["loss"] == pytest.approx(expected, rel=1e-5)


def _layers(text):
    """The layers behind the data layer."""
    return text[text.index('layer {\n  name: "ip1"') :]


def test_solver(converted):
    model, text, notes = converted(NET + SOFTMAX + ACCURACY, SOLVER)
    compiled, fit = model.compile_block, model.fit_block
    optimizer = compiled.optimizer
    assert (type(optimizer).__name__, optimizer.momentum, optimizer.nesterov) == ("SGD", 0.9, True)
    assert (optimizer.l2, optimizer.global_clipnorm) == (0.005, 2)
    assert "StepDecay(0.1, step_size: 30, gamma: 0.5)" in text
    assert {b.layers: b.factor for b in compiled.lr_mult} == {("**/bias",): 2, ("ip2/kernel",): 10}
    assert {b.layers: b.factor for b in compiled.decay_mult} == {("**/bias",): 0}
    assert (fit.epochs, fit.steps_per_epoch, fit.validation_steps, fit.batch_size) == (5, 50, 7, 6)
    assert [type(m.type).__name__ for m in compiled.metrics[1:]] == ["SparseTopKCategoricalAccuracy"]
    assert compiled.seed == 3
    assert any("the data of the layer d (HDF5Data) are not converted" in note for note in notes)


def test_losses_that_are_none_of_ours_are_named(converted):
    _, text, notes = converted(NET + SOFTMAX.replace("SoftmaxWithLoss", "HingeLoss"))
    assert "left out: the loss loss (HingeLoss)" in notes
    assert "compile" not in text


def test_what_is_left_out_is_named(converted):
    data = NET.replace(
        "batch_size: 6 }",
        "batch_size: 6 } transform_param { scale: 0.00390625 mirror: true mean_value: 104 mean_value: 117 }",
    )
    only_train = 'layer { name: "noise" type: "Dropout" bottom: "ip2" top: "ip3" include { phase: TRAIN } }'
    _, _, notes = converted(data + SOFTMAX + ACCURACY + only_train, SOLVER)
    text = "\n".join(notes)
    assert "left out: the layer noise (Dropout), which the phase TRAIN alone has" in text
    for stated in ("scale: 0.00390625", "mirror: true", "mean_value: [104, 117]"):
        assert stated in text


def test_an_accuracy_on_maps_is_left_out_with_a_note(converted):
    net = """
    layer { name: "d" type: "HDF5Data" top: "data" top: "label" hdf5_data_param { source: "no" batch_size: 6 } }
    layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
      convolution_param { num_output: 3 kernel_size: 1 } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "conv" bottom: "label" top: "loss" }
    layer { name: "acc" type: "Accuracy" bottom: "conv" bottom: "label" top: "acc" }
    """
    _, _, notes = converted(net, shape=[2, 4, 4])
    assert "left out: the metric acc (Accuracy), which reads [1, 3, 4, 4], not [batch, classes]" in notes
