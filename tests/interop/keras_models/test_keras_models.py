"""Whole models of Keras 3 become texts with weights, and give the outputs that Keras gives."""

from __future__ import annotations

import json

import keras
import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import ModelFileError
from prototorch.interop.conversion import convert
from prototorch.interop.keras.config_import.whole_model import import_config
from tests.interop.keras_models.imported import check_equal, load, random_weights

K = keras.layers
pytestmark = pytest.mark.filterwarnings("ignore")  # of Keras' own
MODELS = {}


def model(function):
    """Register a function that makes a Keras model."""
    MODELS[function.__name__] = function
    return function


def functional(*shapes, dtype=None):
    """Inputs of these shapes."""
    inputs = [keras.Input(shape, dtype=dtype) for shape in shapes]
    return inputs if len(inputs) > 1 else inputs[0]


@model
def lenet():
    return keras.Sequential(
        [
            keras.Input((13, 11, 3)), K.Conv2D(5, 3, padding="same", strides=2, activation="relu"),
            K.BatchNormalization(), K.MaxPooling2D(2), K.Dropout(0.2), K.Flatten(), K.Dense(7, activation="relu"),
            K.Dense(4, activation="softmax"),
        ]
    )  # fmt: skip


@model
def flatten_through_dropout_and_batch_norm():
    x = functional((7, 6, 3))
    y = K.Flatten()(K.Conv2D(4, 3, activation="relu")(x))
    y = K.Dense(5)(K.PReLU()(K.BatchNormalization()(K.Dropout(0.5)(y))))
    return keras.Model(x, y)


@model
def flatten_is_an_output():
    x = functional((5, 4, 3))
    y = K.Flatten()(K.Conv2D(4, 2)(x))
    return keras.Model(x, [y, K.Dense(3)(y)])


@model
def flattens_joined():
    x, z = functional((6, 5, 2), (7,))
    y = K.Flatten()(K.Conv2D(3, 2)(x))
    return keras.Model([x, z], K.Dense(3)(K.Concatenate()([y, z])))


@model
def squeeze_and_excite():
    x = functional((9, 7, 6))
    y = K.Conv2D(8, 3, padding="same")(x)
    s = K.Reshape((1, 1, 8))(K.GlobalAveragePooling2D()(y))
    s = K.Conv2D(8, 1, activation="sigmoid")(K.Conv2D(2, 1, activation="relu")(s))
    return keras.Model(x, K.GlobalMaxPooling2D()(K.Multiply()([y, s])))


@model
def dense_on_maps():
    x = functional((6, 5, 4))
    y = K.Dense(7, activation="gelu")(K.LayerNormalization()(K.DepthwiseConv2D(3, padding="same")(x)))
    return keras.Model(x, K.Add()([x, K.Dense(4)(y)]))


@model
def generator():
    return keras.Sequential(
        [
            keras.Input((10,)), K.Dense(3 * 4 * 5), K.LeakyReLU(0.1), K.Reshape((3, 4, 5)), K.BatchNormalization(),
            K.Conv2DTranspose(4, 3, strides=2, padding="same", activation="relu"), K.UpSampling2D(2),
            K.Conv2D(2, 3, padding="same", activation="tanh"),
        ]
    )  # fmt: skip


@model
def softmax_over_channels():
    x = functional((6, 5, 3))
    return keras.Model(x, [K.Conv2D(4, 1, activation="softmax")(x), K.Softmax()(K.Conv2D(3, 1)(x)),
                           K.Softmax(axis=1)(K.Conv2D(3, 1)(x))])  # fmt: skip


@model
def u_net():
    x = functional((12, 8, 2))
    a = K.Conv2D(4, 3, padding="same", activation="relu")(x)
    b = K.Conv2D(6, 3, padding="same", activation="relu")(K.MaxPooling2D()(a))
    c = K.Conv2D(8, 3, padding="same", activation="relu")(K.AveragePooling2D(2)(b))
    d = K.Concatenate()([K.Conv2DTranspose(6, 2, strides=2)(c), b])
    e = K.Concatenate()([K.UpSampling2D()(d), a])
    return keras.Model(x, K.Conv2D(1, 1, activation="sigmoid")(e))


@model
def norms():
    x = functional((6, 5, 8))
    y = K.GroupNormalization(4)(K.Conv2D(8, 1)(x))
    y = K.LayerNormalization(axis=[1, 2, 3])(y)
    y = K.BatchNormalization(axis=2)(y)
    return keras.Model(x, K.BatchNormalization(scale=False, center=False)(y))


@model
def windows():
    x = functional((15, 14, 4))
    y = K.ZeroPadding2D(((1, 2), (0, 3)))(x)
    y = K.SeparableConv2D(6, 3, dilation_rate=2, depth_multiplier=2)(y)
    y = K.Cropping2D(((1, 0), (2, 1)))(K.DepthwiseConv2D((3, 2), depth_multiplier=2, strides=1)(y))
    y = K.PReLU(shared_axes=[1, 2])(K.SpatialDropout2D(0.1)(y))
    return keras.Model(x, K.GlobalAveragePooling2D(keepdims=True)(K.MaxPooling2D(3, 2, padding="same")(y)))


@model
def adaptive_pooling():
    x = functional((7, 6, 3))
    return keras.Model(x, K.Flatten()(K.AdaptiveAveragePooling2D((2, 3))(K.Conv2D(4, 2)(x))))


@model
def volumes():
    x = functional((6, 5, 7, 2))
    y = K.MaxPooling3D(2)(K.Conv3D(3, 3, padding="same", activation="relu")(x))
    return keras.Model(x, K.Dense(3)(K.Flatten()(y)))


@model
def steps():
    x = functional((20, 3))
    y = K.Conv1D(6, 5, padding="causal", dilation_rate=2, activation="relu")(x)
    y = K.MaxPooling1D(2)(K.SpatialDropout1D(0.1)(K.ZeroPadding1D(2)(y)))
    y = K.LSTM(5, return_sequences=True)(y)
    return keras.Model(x, K.GlobalMaxPooling1D()(K.SeparableConv1D(4, 3)(y)))


@model
def text_classifier():
    x = functional((11,), dtype="int32")
    y = K.Bidirectional(K.LSTM(4, return_sequences=True))(K.Embedding(9, 6, mask_zero=True)(x))
    return keras.Model(x, K.Dense(2, activation="softmax")(K.GRU(5)(y)))


@model
def gru_without_reset_after():
    return keras.Sequential([keras.Input((6, 3)), K.GRU(4, reset_after=False), K.Dense(2)])


@model
def states():
    x = functional((6, 3))
    y, h, c = K.LSTM(4, return_state=True, return_sequences=True)(x)
    z = K.LSTM(4)(y, initial_state=[h, c])
    return keras.Model(x, [z, K.SimpleRNN(3, activation="relu")(y)])


@model
def transformer():
    x = functional((7,), dtype="int32")
    y = K.Embedding(9, 8)(x)
    a = K.MultiHeadAttention(2, 3)(y, y)
    y = K.LayerNormalization()(K.Add()([y, a]))
    y = K.Add()([y, K.Dense(8)(K.Dense(12, activation="gelu")(y))])
    a, scores = K.MultiHeadAttention(2, 4, value_dim=3)(y, y, return_attention_scores=True, use_causal_mask=True)
    return keras.Model(x, [K.GlobalAveragePooling1D()(a), scores])


@model
def time_distributed():
    x = functional((4, 8, 7, 2))
    y = K.TimeDistributed(K.Conv2D(3, 3, activation="relu"))(x)
    y = K.TimeDistributed(K.GlobalAveragePooling2D())(y)
    return keras.Model(x, K.LSTM(3)(K.TimeDistributed(K.Dense(4))(y)))


@model
def shared_and_nested():
    tower_in = keras.Input((9, 8, 2))
    tower = keras.Model(tower_in, K.Dense(5)(K.Flatten()(K.Conv2D(3, 3, activation="relu")(tower_in))), name="tower")
    head = keras.Sequential([keras.Input((5,)), K.Dense(4, activation="tanh"), K.Dense(2)], name="head")
    x, y = functional((9, 8, 2), (9, 8, 2))
    return keras.Model([x, y], head(K.Subtract()([tower(x), tower(y)])))


@model
def reshapes_and_permutes():
    x = functional((6, 4, 3))
    y = K.Conv2D(5, 1)(x)
    y = K.Reshape((24, 5))(y)
    y = K.Permute((2, 1))(y)
    y = K.Dense(7)(y)
    return keras.Model(x, K.Reshape((7, -1))(y))


@model
def operators():
    x = functional((5, 4, 3))
    y = K.Conv2D(3, 1)(x)
    y = (y + x) * 2.0 - 1.0
    return keras.Model(x, keras.ops.relu(y) / 3.0)


@model
def preprocessing():
    scaling = K.Normalization(mean=[0.1, 0.2, 0.3], variance=[1.0, 2.0, 3.0])
    x = functional((8, 9, 3))
    y = K.Rescaling(0.5, offset=[0.1, 0.2, 0.3])(scaling(x))
    y = K.Resizing(6, 5)(K.CenterCrop(7, 7)(y))
    return keras.Model(x, K.Conv2D(2, 3)(y))


@model
def channels_first():
    x = functional((3, 8, 7))
    y = K.Conv2D(4, 3, data_format="channels_first", activation="relu")(x)
    y = K.BatchNormalization(axis=1)(y)
    return keras.Model(x, K.Dense(3)(K.Flatten()(y)))


@model
def activations():
    x = functional((6,))
    names = ["elu", "selu", "softplus", "softsign", "silu", "gelu", "hard_sigmoid", "leaky_relu", "relu6", "mish",
             "exponential", "tanh", "sigmoid", "log_softmax", "linear", "hard_silu", "celu", "log_sigmoid"]  # fmt: skip
    ys = [K.Dense(2, activation=name)(x) for name in names]
    ys += [K.ReLU(max_value=3, negative_slope=0.1, threshold=0.2)(x), K.ELU(0.5)(x), K.LeakyReLU(0.05)(x)]
    return keras.Model(x, K.Concatenate()(ys))


@model
def merges():
    x, z = functional((5, 4, 3), (5, 4, 3))
    a, b = K.Conv2D(3, 1)(x), K.Conv2D(3, 1)(z)
    ys = [K.Add()([a, b, x]), K.Average()([a, b]), K.Maximum()([a, b]), K.Minimum()([a, z]), K.Multiply()([a, b])]
    return keras.Model([x, z], K.Concatenate(axis=1)([*ys, K.Concatenate(axis=-1)([a, b])[..., :3]][:5]))


@model
def dots():
    x, z = functional((4, 6), (5, 6))
    return keras.Model([x, z], [K.Dot((2, 2))([x, z]), K.Dot((2, 2), normalize=True)([x, z])])


@pytest.mark.parametrize("name", MODELS)
def test_outputs_equal_those_of_keras(name, tmp_path):
    check_equal(MODELS[name](), tmp_path / f"{name}.keras")


@pytest.mark.parametrize("name", ["lenet", "text_classifier", "shared_and_nested", "u_net"])
def test_old_h5_files_are_read_as_well(name, tmp_path):
    check_equal(MODELS[name](), tmp_path / f"{name}.h5")


def test_the_compile_block_says_how_the_model_was_trained(tmp_path):
    net = MODELS["lenet"]()
    net.compile(
        keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.1, 1000), momentum=0.9),
        keras.losses.CategoricalCrossentropy(label_smoothing=0.1),
        metrics=["accuracy"],
    )
    text = check_equal(net, tmp_path / "net.keras")
    assert "CategoricalCrossentropy(label_smoothing: 0.1)" in text.replace(
        "categorical_crossentropy", "CategoricalCrossentropy"
    )
    assert "momentum: 0.9" in text
    assert "CosineDecay" in text
    assert "metrics: [accuracy]" in text


def test_a_config_alone_gives_the_net_without_weights(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(MODELS["u_net"]().to_json())
    imported = load(path)
    assert not imported.weights
    assert imported.net.inputs[0].shape == (2, 12, 8)


def test_names_of_layers_are_kept_or_told(tmp_path):
    x = keras.Input((4,), name="my input")
    net = keras.Model(x, K.Dense(2, name="head (new)")(x))
    random_weights(net)
    net.save(tmp_path / "net.keras")
    imported = load(tmp_path / "net.keras")
    assert imported.original_names == {"my_input": "my input", "head__new_": "head (new)"}
    kernel = keras.ops.convert_to_numpy(net.get_layer("head (new)").kernel)
    np.testing.assert_array_equal(imported.weights["head__new_/kernel"], kernel)


def test_all_layers_without_counterpart_are_in_one_error():
    x = keras.Input((8, 3))
    y = K.Lambda(lambda v: v * 2)(x)
    y = K.UnitNormalization()(y)
    y = K.Dense(3, activation=keras.activations.sparsemax)(y)
    net = keras.Model(x, K.Dense(2)(K.LSTM(4, stateful=False)(y)))
    with pytest.raises(ModelFileError, match=r"Lambda.*program.*UnitNormalization.*sparsemax") as error:
        import_config(json.loads(net.to_json()), None, "net")
    assert "replace it" in str(error.value)


def test_a_class_of_somebodys_own_is_refused_by_name():
    @keras.saving.register_keras_serializable("mine")
    class Doubling(K.Layer):
        def call(self, x):
            return x * 2

    net = keras.Sequential([keras.Input((3,)), Doubling(), K.Dense(2)])
    with pytest.raises(ModelFileError, match="Doubling: a class of somebody's own"):
        import_config(json.loads(net.to_json()), None, "net")


@pytest.mark.parametrize("loss", ["mse", ["mse", "mae"], {"one": "mse", "two": "mae"}], ids=["one", "list", "dict"])
@pytest.mark.parametrize("metrics", [None, [["mae"], ["mse"]]], ids=["none", "lists"])
def test_models_of_several_outputs_train_as_they_were_compiled(loss, metrics, tmp_path):
    x = keras.Input((4,))
    net = keras.Model(x, [keras.layers.Dense(2, name="one")(x), keras.layers.Dense(3, name="two")(x)])
    net.compile("sgd", loss, metrics=metrics)
    net.save(tmp_path / "net.keras")
    convert(str(tmp_path / "net.keras"), str(tmp_path / "net.proto"))
    model = pt.load_model(tmp_path / "net.proto")
    model.load_weights(tmp_path / "net.h5")
    data = np.ones((8, 4), np.float32), [np.ones((8, 2), np.float32), np.ones((8, 3), np.float32)]
    ours = model.evaluate(*data, verbose=0, return_dict=True)
    theirs = net.evaluate(*data, verbose=0, return_dict=True)
    assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)
    model.fit(*data, epochs=1, verbose=0)


@pytest.mark.parametrize("dims", [(3, 1, 2), (2, 1, 3), (1, 3, 2), (3, 2, 1), (1, 2, 3)])
@pytest.mark.parametrize("end", ["flatten", "reshape", "relu", "operation"])
def test_what_is_flattened_behind_a_permutation_keeps_its_order(dims, end, tmp_path):
    """The rows of the dense layer are Keras' rows: the importer's order, not that of maps of channels."""
    x = keras.Input((6, 5, 2))
    y = keras.layers.Conv2D(3, 2)(x)
    y = keras.ops.transpose(y, (0, *dims)) if end == "operation" else keras.layers.Permute(dims)(y)
    y = keras.layers.ReLU()(y) if end == "relu" else y
    y = keras.layers.Reshape((60,))(y) if end == "reshape" else keras.layers.Flatten()(y)
    check_equal(keras.Model(x, keras.layers.Dense(4)(y)), tmp_path / "m.keras")


def test_steps_and_features_exchanged_before_a_flatten(tmp_path):
    x = keras.Input((6, 2))
    y = keras.layers.Permute((2, 1))(keras.layers.Conv1D(3, 2)(x))
    check_equal(keras.Model(x, keras.layers.Dense(4)(keras.layers.Flatten()(y))), tmp_path / "m.keras")
    y = keras.layers.Permute((2, 1))(keras.layers.Dense(3)(x))  # no map of channels, but in the order of one
    check_equal(keras.Model(x, keras.layers.Dense(4)(keras.layers.Flatten()(y))), tmp_path / "n.keras")


@pytest.mark.parametrize("ending", ["keras", "h5"])
def test_a_model_without_weights_becomes_a_text_alone(tmp_path, ending):
    x, z = keras.Input((3, 4)), keras.Input((3, 4))
    net = keras.Model([x, z], K.Flatten()(K.Add()([K.ReLU()(x), z])))
    path = tmp_path / f"net.{ending}"
    net.save(path)
    result = convert(str(path), str(tmp_path / "text.proto"), weights_to=str(tmp_path / "text.h5"))
    assert result.paths == (str(tmp_path / "text.proto"),)
    assert "has no weights" in "".join(result.notes)
    a, b = np.random.default_rng(0).standard_normal((2, 2, 3, 4)).astype("float32")
    ours = pt.load_model(str(tmp_path / "text.proto"))
    np.testing.assert_allclose(ours.predict([a, b], verbose=0), (np.maximum(a, 0) + b).reshape(2, 12), atol=1e-6)
