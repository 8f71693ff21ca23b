"""Caffe's loss layers and Accuracy: random configurations against its definitions in NumPy, with gradients."""

from __future__ import annotations

import numpy as np
import pytest

from prototorch.caffe.interop.wire import encode
from prototorch.caffe.text.message import Message
from prototorch.errors import IndexRangeError, TextError
from tests.caffe import loss_oracles as oracle
from tests.caffe.layer_runner import inputs_text, run_layer, translate

MODES = ("FULL", "VALID", "BATCH_SIZE", "NONE")
SHAPES = [((4, 5), 1), ((2, 4, 3, 2), 1), ((2, 3, 5), -1), ((3, 2, 4), 2), ((4, 3), 0)]


def layer(type_name: str, bottoms: int, fields: str = "", tops: str = "loss") -> str:
    names = " ".join(f'bottom: "{b}"' for b in ("x", "t", "h")[:bottoms])
    outs = " ".join(f'top: "{t}"' for t in tops.split())
    return f'layer {{ name: "loss" type: "{type_name}" {names} {outs} {fields} }}'


def check(text: str, inputs: dict, loss: float, gradients: dict) -> None:
    run = run_layer(text, inputs)
    assert run.blobs["loss"].shape == ()
    np.testing.assert_allclose(run.blobs["loss"], loss, rtol=1e-12, atol=1e-12)
    for name, expected in gradients.items():
        np.testing.assert_allclose(run.input_gradients[name], expected, rtol=1e-10, atol=1e-12, err_msg=name)
    float32 = run_layer(text, inputs, dtype="float32", level="native")
    np.testing.assert_allclose(float32.blobs["loss"], loss, rtol=1e-5, atol=1e-6)
    for name, expected in gradients.items():
        np.testing.assert_allclose(float32.input_gradients[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)


def labels_for(rng, shape, axis, ignore=None):
    axis %= len(shape)
    labels = rng.integers(0, shape[axis], (*shape[:axis], *shape[axis + 1 :])).astype(float)
    if ignore is not None:
        labels[rng.random(labels.shape) < 0.4] = ignore
    # the first axis of labels is that of x in Caffe
    return labels.reshape(shape[0], -1) if axis == 0 and labels.size % shape[0] == 0 else labels


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("shape", "axis"), SHAPES[:4])
@pytest.mark.parametrize("ignore", [None, 1, 255, -1])
def test_softmax_with_loss_is_caffes(shape, axis, ignore, mode):
    rng = np.random.default_rng([*shape, axis % 4, (ignore or 0) + 2, MODES.index(mode)])
    x, labels = rng.normal(size=shape) * 3, labels_for(rng, shape, axis, ignore)
    fields = f"softmax_param {{ axis: {axis} }} loss_param {{ normalization: {mode} "
    fields += "}" if ignore is None else f"ignore_label: {ignore} }}"
    loss, grad = oracle.softmax_loss(x, labels, axis % len(shape), ignore, mode)
    check(layer("SoftmaxWithLoss", 2, fields), {"x": x, "t": labels}, loss, {"x": grad})


@pytest.mark.parametrize(("fields", "mode"), [("normalize: true", "VALID"), ("normalize: false", "BATCH_SIZE"),
                                              ("normalize: false normalization: FULL", "FULL"),
                                              ("", "VALID")])  # fmt: skip
def test_the_deprecated_normalize_counts_where_normalization_is_not_there(fields, mode):
    rng = np.random.default_rng(1)
    x, labels = rng.normal(size=(2, 3, 4)), rng.integers(0, 3, (2, 4)).astype(float)
    loss, grad = oracle.softmax_loss(x, labels, 1, None, mode)
    check(layer("SoftmaxWithLoss", 2, f"loss_param {{ {fields} }}"), {"x": x, "t": labels}, loss, {"x": grad})
    targets = rng.random((2, 3, 4))
    mode = mode if fields else "BATCH_SIZE"
    loss, grad = oracle.sigmoid_loss(x, targets, None, mode)
    check(layer("SigmoidCrossEntropyLoss", 2, f"loss_param {{ {fields} }}"), {"x": x, "t": targets}, loss, {"x": grad})


def test_a_probability_below_flt_min_counts_as_flt_min_but_has_the_gradient_of_the_softmax():
    x, labels = np.array([[200.0, 0.0], [0.0, 1.0]]), np.array([1.0, 1.0])
    loss, grad = oracle.softmax_loss(x, labels)
    assert loss > 40
    check(layer("SoftmaxWithLoss", 2), {"x": x, "t": labels}, loss, {"x": grad})


def test_a_batch_whose_labels_are_all_ignored_has_a_loss_of_zero():
    x, labels = np.ones((2, 3)), np.full((2,), 7.0)
    check(layer("SoftmaxWithLoss", 2, "loss_param { ignore_label: 7 }"), {"x": x, "t": labels}, 0.0, {"x": x * 0})


def test_labels_may_have_axes_of_one_and_fractions():
    x, labels = np.random.default_rng(0).normal(size=(2, 3, 2, 2)), np.array([[[[0.9, 2.2], [1.7, 0]]]] * 2)
    loss, grad = oracle.softmax_loss(x, np.trunc(labels))
    check(layer("SoftmaxWithLoss", 2), {"x": x, "t": labels}, loss, {"x": grad})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("shape", "axis"), SHAPES[:4])
@pytest.mark.parametrize("ignore", [None, 1])
def test_infogain_loss_is_caffes(shape, axis, ignore, mode):
    rng = np.random.default_rng([*shape, axis % 4, MODES.index(mode)])
    x, labels = rng.normal(size=shape) * 3, labels_for(rng, shape, axis, ignore)
    x.flat[0] = 90.0  # probabilities below 1e-20 beside it
    h = rng.random((shape[axis], shape[axis]))
    fields = f"infogain_loss_param {{ axis: {axis} }} loss_param {{ normalization: {mode} "
    fields += "}" if ignore is None else f"ignore_label: {ignore} }}"
    # the matrix has the first axis of x in no case: only that of the labels is compared
    loss, grad = oracle.infogain_loss(x, labels, h, axis % len(shape), ignore, mode)
    check(layer("InfogainLoss", 3, fields), {"x": x, "t": labels, "h": h}, loss, {"x": grad})


def test_infogain_loss_reads_its_matrix_from_a_file_beside_the_text(tmp_path):
    rng = np.random.default_rng(3)
    x, labels = rng.normal(size=(4, 3)), np.array([0.0, 2, 1, 2])
    h = rng.random((3, 3)).astype(np.float32)
    blob = Message("BlobProto", data=h.ravel(), num=1, channels=1, height=3, width=3)
    (tmp_path / "h.binaryproto").write_bytes(bytes(encode(blob)))
    text = layer("InfogainLoss", 2, 'infogain_loss_param { source: "h.binaryproto" }')
    text = text.replace("h.binaryproto", str(tmp_path / "h.binaryproto"))
    loss, grad = oracle.infogain_loss(x, labels, h.astype(float))
    check(text, {"x": x, "t": labels}, loss, {"x": grad})
    beside = layer("InfogainLoss", 2, 'infogain_loss_param { source: "h.binaryproto" }')
    beside, path = inputs_text({"x": x, "t": labels}) + beside, str(tmp_path / "net.prototxt")
    assert translate(beside, path=path).net.nodes[0].layer.matrix == tuple(float(v) for v in h.ravel())
    (tmp_path / "bad").write_bytes(b"\xff" * 30)
    (tmp_path / "small").write_bytes(bytes(encode(Message("BlobProto", data=np.ones(2, np.float32)))))
    (tmp_path / "large").write_bytes(bytes(encode(Message("BlobProto", data=np.ones(5000, np.float32)))))
    (tmp_path / "folder").mkdir()
    for name, expected in (
        ("none", "no such file"),
        ("bad", "layer 'loss'"),
        ("small", "has 2 elements"),
        ("large", "larger than"),
        ("folder", "no regular file"),
    ):
        with pytest.raises(TextError, match=expected):
            translate(beside.replace("h.binaryproto", name), path=path)


def test_infogain_loss_with_two_tops_gives_the_softmax_too():
    rng = np.random.default_rng(3)
    inputs = {"x": rng.normal(size=(4, 3)), "t": np.array([0.0, 2, 1, 2]), "h": rng.random((3, 3))}
    run = run_layer(layer("InfogainLoss", 3, "loss_weight: 1 loss_weight: 0", "loss p"), inputs)
    np.testing.assert_allclose(run.blobs["p"], oracle.softmax(inputs["x"], 1), rtol=1e-12)
    with pytest.raises(TextError, match="two loss_weight"):
        run_layer(layer("InfogainLoss", 3, "", "loss p"), inputs)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ignore", [None, 0, 1, -1])
def test_sigmoid_cross_entropy_loss_is_caffes(ignore, mode):
    rng = np.random.default_rng([MODES.index(mode), (ignore or 0) + 1])
    x, t = rng.normal(size=(3, 2, 4)) * 4, rng.random((3, 2, 4))
    t[rng.random(t.shape) < 0.5] = rng.integers(-1, 2)
    fields = f"loss_param {{ normalization: {mode} " + ("}" if ignore is None else f"ignore_label: {ignore} }}")
    loss, grad = oracle.sigmoid_loss(x, t, ignore, mode)
    check(layer("SigmoidCrossEntropyLoss", 2, fields), {"x": x, "t": t.reshape(3, 8)}, loss, {"x": grad})


@pytest.mark.parametrize("shapes", [((4, 3), (4, 3)), ((2, 6), (2, 3, 2)), ((3,), (3,))])
def test_euclidean_loss_is_caffes_with_gradients_to_both_bottoms(shapes):
    rng = np.random.default_rng(4)
    a, b = (rng.normal(size=s) for s in shapes)
    diff = a - b.reshape(a.shape)
    loss = (diff**2).sum() / len(a) / 2
    check(layer("EuclideanLoss", 2), {"x": a, "t": b}, loss, {"x": diff / len(a), "t": -diff.reshape(b.shape) / len(a)})


@pytest.mark.parametrize("norm", ["L1", "L2"])
@pytest.mark.parametrize("shape", [(4, 3), (3, 2, 2)])
def test_hinge_loss_is_caffes(shape, norm):
    rng = np.random.default_rng(5)
    x, labels = rng.normal(size=shape), rng.integers(0, 3, (shape[0], 1)).astype(float)
    x.flat[:2] = -1, 1  # at the margin, where the derivative is 0
    loss, grad = oracle.hinge_loss(x, labels, norm)
    check(layer("HingeLoss", 2, f"hinge_loss_param {{ norm: {norm} }}"), {"x": x, "t": labels}, loss, {"x": grad})


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("margin", [0.5, 4.0])
def test_contrastive_loss_is_caffes(legacy, margin):
    rng = np.random.default_rng(6)
    a, b, labels = rng.normal(size=(6, 3)), rng.normal(size=(6, 3)), np.array([0.0, 1, 0, 1, 0, 0])
    b[4] = a[4]  # a distance of 0
    b[2] = a[2] + 0.1
    loss, da, db = oracle.contrastive_loss(a, b, labels, margin, legacy)
    fields = f"contrastive_loss_param {{ margin: {margin} legacy_version: {str(legacy).lower()} }}"
    shapes = {"x": a, "t": b.reshape(6, 3, 1, 1), "h": labels}
    check(layer("ContrastiveLoss", 3, fields), shapes, loss, {"x": da, "t": db.reshape(6, 3, 1, 1)})


def test_multinomial_logistic_loss_is_caffes():
    x = np.array([[0.25, 0.5, 1e-25], [0.1, 0.8, 0.1], [1, 0, 0], [0.3, 0.3, 0.4]])
    for labels in (np.array([1.0, 1, 0, 2]), np.array([2.0, 1, 1, 0]).reshape(4, 1, 1)):
        loss, grad = oracle.multinomial_loss(x, labels)
        run = run_layer(layer("MultinomialLogisticLoss", 2), {"x": x, "t": labels})
        np.testing.assert_allclose(run.blobs["loss"], loss, rtol=1e-12)
        np.testing.assert_allclose(run.input_gradients["x"], grad, rtol=1e-12)


@pytest.mark.parametrize(("shape", "axis"), SHAPES[:4])
@pytest.mark.parametrize(("top_k", "ignore"), [(1, None), (2, 1), (3, None), (0, None)])
def test_accuracy_is_caffes_ties_included(shape, axis, top_k, ignore):
    rng = np.random.default_rng([*shape, top_k])
    x, labels = rng.integers(0, 4, shape).astype(float), labels_for(rng, shape, axis, ignore)
    fields = f"accuracy_param {{ top_k: {top_k} axis: {axis} "
    fields += "}" if ignore is None else f"ignore_label: {ignore} }}"
    run = run_layer(layer("Accuracy", 2, fields, "acc per_class"), {"x": x, "t": labels}, phase="TEST", seeds={})
    total, per_class = oracle.accuracy(x, labels, top_k, axis % len(shape), ignore)
    np.testing.assert_allclose(run.blobs["acc"], total, rtol=1e-12)
    np.testing.assert_allclose(run.blobs["per_class"], per_class, rtol=1e-12)


@pytest.mark.parametrize("type_name", ["SoftmaxWithLoss", "MultinomialLogisticLoss", "HingeLoss", "Accuracy"])
@pytest.mark.parametrize("label", [3.0, -1.0])
def test_a_label_that_is_no_class_is_refused(type_name, label):
    with pytest.raises(IndexRangeError, match=rf"{label:.0f}\b"):
        run_layer(layer(type_name, 2), {"x": np.full((2, 3), 0.5), "t": np.array([0.0, label])}, phase="TEST", seeds={})


def test_a_loss_weight_is_on_any_top_and_a_loss_may_leave_its_top_out():
    x = np.array([[1.0, 2.0]])
    text = 'layer { name: "l" type: "EuclideanLoss" bottom: "x" bottom: "t" loss_weight: 3 }'
    net = translate(inputs_text({"x": x, "t": x}) + text)
    assert net.layers[-1].loss_weights == (3.0,)
    assert net.layers[-1].tops == ("(automatic)",)
    assert translate(inputs_text({"x": x, "t": x}) + layer("EuclideanLoss", 2)).layers[-1].loss_weights == (1.0,)
    assert translate(inputs_text({"x": x, "t": x[:, 0]}) + layer("Accuracy", 2)).layers[-1].loss_weights == (0.0,)


@pytest.mark.parametrize(("text", "shapes", "expected"), [
    (layer("SoftmaxWithLoss", 2), ((4, 3), (3,)), r"bottoms \[4, 3\] and \[3\] must have the same first axis"),
    (layer("SoftmaxWithLoss", 2), ((4, 3), (4, 2)), r"8 labels \[4, 2\] for 4 predictions"),
    (layer("SoftmaxWithLoss", 2, "softmax_param { axis: 2 }"), ((4, 3), (4,)), "axis 2 is not one of the 2 axes"),
    (layer("SoftmaxWithLoss", 2, "", "loss p"), ((4, 3), (4,)), "two tops"),
    (layer("SoftmaxWithLoss", 1), ((4, 3), (4,)), "it has 1 bottoms"),
    (layer("InfogainLoss", 2), ((4, 3), (4,)), "source"),
    (layer("InfogainLoss", 2, "loss_param { normalize: true }"), ((4, 3), (4,)), "normalize is not"),
    (layer("SigmoidCrossEntropyLoss", 2), ((4, 3), (4, 2)), "as many elements"),
    (layer("EuclideanLoss", 2), ((4, 3), (4, 2)), "as many elements"),
    (layer("HingeLoss", 2), ((4, 3), (4, 2)), "8 labels"),
    (layer("MultinomialLogisticLoss", 2), ((4, 3), (4, 2)), r"labels must have the shape \[4\]"),
    (layer("ContrastiveLoss", 2), ((4, 3), (4, 3)), "it has 2 bottoms"),
    (layer("Accuracy", 2), ((4, 3), (3,)), "3 labels"),
    (layer("Accuracy", 2, "accuracy_param { top_k: 4 }"), ((4, 3), (4,)), "top_k 4 exceeds the 3 classes"),
])  # fmt: skip
def test_mistakes_are_named_with_the_layer(text, shapes, expected):
    arrays = dict(zip("xt", map(np.zeros, shapes), strict=True))
    with pytest.raises(TextError, match=f"layer 'loss'.*{expected}"):
        translate(inputs_text(arrays) + text)
