"""ONNX files that Keras exports with its torch backend, and Einsum, which its attention becomes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from prototorch.errors import ModelFileError
from prototorch.interop.onnx.importer.model import import_onnx
from tests.interop.onnx.onnx_models import assert_same_outputs, make_model, node, save

pytest.importorskip("torch")
keras = pytest.importorskip("keras")
onnx = pytest.importorskip("onnx")
L = keras.layers
RNG = np.random.default_rng(0)


def _convolutions(x):
    x = L.BatchNormalization()(L.Conv2D(6, 3, strides=2, padding="same", activation="relu")(x))
    x = L.Conv2D(5, 2, activation="gelu")(L.MaxPooling2D()(x))
    return L.Dense(4, activation="softmax")(L.Dropout(0.3)(L.Flatten()(x)))


def _mlp(x):
    x = L.LeakyReLU()(L.BatchNormalization()(L.Dense(9, activation="tanh")(x)))
    return L.Dense(3, activation="sigmoid")(L.PReLU()(x))


def _lstm(x):
    return L.Dense(2)(L.LSTM(3)(L.LSTM(4, return_sequences=True)(x)))


def _gru(x):
    return L.Dense(2)(L.GlobalAveragePooling1D()(L.Bidirectional(L.GRU(4, return_sequences=True))(x)))


def _transformer(x):
    x = L.Add()([x, L.MultiHeadAttention(2, 4)(x, x)])
    x = L.Add()([x, L.Dense(8)(L.Dense(16, activation="gelu")(x))])
    return L.Dense(3)(L.GlobalMaxPooling1D()(x))


def _attentions(x):
    y = L.MultiHeadAttention(2, 4, value_dim=5)(x, x, use_causal_mask=True)
    x = L.Concatenate()([L.GroupQueryAttention(4, 4, 2)(x, x), y, L.AdditiveAttention()([x, y])])
    return L.EinsumDense("abc,cd->abd", output_shape=(None, 3), bias_axes="d")(x)


def _text(x):
    x = L.Conv1D(5, 3, padding="causal", activation="silu")(L.Embedding(11, 6)(x))
    return L.Dense(2)(L.Flatten()(L.MaxPooling1D(2)(x)))


def _mobilenet(x):
    def norm(x):
        return L.BatchNormalization(epsilon=1e-3, momentum=0.999)(x)

    x = norm(L.Conv2D(8, 3, strides=2, padding="same", use_bias=False)(L.Rescaling(1 / 127.5, -1)(x)))
    x = L.ReLU(6.0)(x)
    for strides, filters in ((1, 8), (2, 12)):
        y = L.ReLU(6.0)(norm(L.Conv2D(24, 1, use_bias=False)(x)))
        y = y if strides == 1 else L.ZeroPadding2D(((0, 1), (0, 1)))(y)
        padding = "same" if strides == 1 else "valid"
        y = L.ReLU(6.0)(norm(L.DepthwiseConv2D(3, strides=strides, padding=padding, use_bias=False)(y)))
        y = norm(L.Conv2D(filters, 1, use_bias=False)(y))
        x = L.Add()([x, y]) if strides == 1 else y
    return L.Dense(5)(L.GlobalAveragePooling2D()(x))


def _gates(x):
    x = L.GroupNormalization(2)(L.SeparableConv2D(6, 3, padding="same")(x))
    y = L.Conv2D(3, 1, activation="relu")(L.GlobalAveragePooling2D(keepdims=True)(x))
    x = L.UpSampling2D(2)(L.Multiply()([x, L.Conv2D(6, 1, activation="hard_sigmoid")(y)]))
    x = L.AveragePooling2D(2, padding="same")(L.Conv2DTranspose(3, 3, strides=2, padding="same")(x))
    return L.Permute((2, 1))(L.Reshape((-1, 3))(x))


NETS = {
    _convolutions: (13, 11, 3), _mlp: (7,), _lstm: (6, 5), _gru: (6, 5), _transformer: (6, 8), _attentions: (6, 8),
    _text: (7,), _mobilenet: (32, 32, 3), _gates: (9, 9, 4),
}  # fmt: skip


def _export(build, shape, path):
    """A Keras model with weights that are not neutral, exported; the path and inputs of a batch of five."""
    x = keras.Input(shape, dtype="int32" if build is _text else "float32")
    model = keras.Model(x, build(x))
    for variable in model.weights:
        if "variance" in variable.path:
            variable.assign(RNG.uniform(0.5, 1.5, variable.shape))
        elif "seed" not in variable.path:
            variable.assign(RNG.normal(0, 0.4, variable.shape))
    feed = RNG.integers(0, 11, (5, *shape)) if build is _text else RNG.standard_normal((5, *shape))
    feed = feed.astype(x.dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model(feed)
        model.export(str(path), format="onnx", verbose=False)
    return str(path), feed


@pytest.mark.parametrize("build", NETS, ids=lambda build: build.__name__.strip("_"))
def test_keras_exports(tmp_path, build):
    path, feed = _export(build, NETS[build], tmp_path / "net.onnx")
    assert onnx.load(path).graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert_same_outputs(path, [feed])


def test_a_projection_of_heads_is_a_dense_layer(tmp_path):
    path, _ = _export(_transformer, NETS[_transformer], tmp_path / "net.onnx")
    kinds = [type(n.layer).__name__ for n in import_onnx(path).net.nodes]
    assert kinds.count("Dense") == 4 + 3
    assert kinds.count("MatMul") == 2


# ---------------------------------------------------------------- Einsum

CONSTANT = {
    "abc,cde->abde": (4, 2, 3), "abcd,cde->abe": (4, 5, 6), "abc,cd": (4, 3), "cde,abc->eabd": (4, 2, 3),
    "abc,bc->ab": (3, 4), "ab...,bd->da...": (3, 2), "abc,d->ad": (7,), "abc,bd->dac": (3, 2),
}  # fmt: skip


@pytest.mark.parametrize("equation", CONSTANT)
def test_einsum_with_a_constant(tmp_path, equation):
    shape = (3, 4, 5) if equation.startswith("abcd") else (3, 4)
    inputs = ["w", "x"] if equation.startswith("cde") else ["x", "w"]
    weights = {"w": RNG.standard_normal(CONSTANT[equation]).astype(np.float32)}
    one = node("Einsum", inputs, ["y"], equation=equation)
    path = save(make_model([one], {"x": ["N", *shape]}, ["y"], weights), tmp_path / "net.onnx")
    assert_same_outputs(path, [RNG.standard_normal((2, *shape)).astype(np.float32)])


VALUES = ["btnh,bsnh->bnts", "bt...,bs...->b...ts", "btnh,bsnh->tbns", "btnh,bskh->bnk", "btnh,bsnh->btnsh"]
REFUSED = {"btnh,bsnh": "batch", "btnh,bsnh->tsnh": "batch", "btnn,bsnh->bts": "diagonal", "btn,bsnh->bts": "fit",
           "btnh,bsth->bs": "two sizes", "btnh->bt": "1 arrays, not 2", "btnh,bsnh->bq": "fit"}  # fmt: skip


def _two_values(equation, path):
    one = node("Einsum", ["x", "z"], ["y"], equation=equation)
    return save(make_model([one], {"x": ["N", 3, 2, 4], "z": ["N", 5, 2, 4]}, ["y"]), path)


@pytest.mark.parametrize("equation", VALUES)
def test_einsum_of_two_values(tmp_path, equation):
    path = _two_values(equation, tmp_path / "net.onnx")
    assert_same_outputs(path, [RNG.standard_normal((2, n, 2, 4)).astype(np.float32) for n in (3, 5)])


@pytest.mark.parametrize("equation", REFUSED)
def test_einsum_that_no_layer_does(tmp_path, equation):
    with pytest.raises(ModelFileError, match=f"Einsum.*{REFUSED[equation]}"):
        import_onnx(_two_values(equation, tmp_path / "net.onnx"))


def test_einsum_copies_no_large_repeated_constant(tmp_path):
    nodes = [node("Expand", ["one", "shape"], ["w"]), node("Einsum", ["x", "w"], ["y"], equation="ab,cb->ac")]
    weights = {"one": np.ones((1, 1), np.float32), "shape": np.array([1 << 14, 1 << 13])}
    path = save(make_model(nodes, {"x": ["N", 1 << 13]}, ["y"], weights), tmp_path / "net.onnx")
    with pytest.raises(ModelFileError, match=r"134,217,728 repeated elements"):
        import_onnx(path)
