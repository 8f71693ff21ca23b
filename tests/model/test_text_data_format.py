"""``data_format`` of a text and of its inputs: what layers, preprocessing and images from files follow."""

import numpy as np
import pytest
from PIL import Image

import prototorch as pt
from prototorch.errors import ModelError, TextError, UsageError
from prototorch.model.load import model_from_text

BODY = """
preprocess {{ Rescaling {{ scale: 0.004{rescaling} }}  Resizing {{ height: 12  width: 10{resizing} }} }}
augment {{ RandomCrop {{ height: 12  width: 10{resizing} }} }}
Conv2D {{ filters: 4  kernel_size: 3  activation: relu{layers} }}
BatchNormalization {{ {layers} }}
Concatenate {{ branch {{ MaxPooling2D {{ {layers} }} }} branch {{ AveragePooling2D {{ {layers} }} }}{layers} }}
GlobalAveragePooling2D {{ {layers} }}
Dense {{ units: 3  activation: softmax }}
compile {{ optimizer: sgd  loss: sparse_categorical_crossentropy }}
"""


def text_of(top="", shape="[12, 10, 3]", input_format="", layers=""):
    stated = f"  data_format: {layers}" if layers else ""
    body = BODY.format(rescaling=stated, resizing=stated, layers=stated)
    return f"{top}\ninput {{ shape: {shape}{input_format} }}\n{body}"


LINE = text_of("data_format: channels_last")


def test_a_line_is_the_field_of_each_input_and_layer():
    stated = text_of("", input_format="  data_format: channels_last", layers="channels_last")
    assert model_from_text(LINE).net == model_from_text(stated).net


def test_it_is_one_line_of_the_expanded_text_too():
    text = model_from_text(LINE).to_text()
    assert text.count("data_format") == 1
    assert model_from_text(text).net == model_from_text(LINE).net


def test_a_statement_of_a_layer_counts_before_the_line():
    net = model_from_text(
        "data_format: channels_last  input { shape: [8, 6, 4] }  "
        "Conv2D { filters: 2  kernel_size: 3  data_format: channels_first }"
    ).net
    assert net.nodes[0].layer.data_format == "channels_first"
    assert model_from_text(pt.Model(net).to_text()).net == net


def test_layers_inside_others_follow_the_line():
    text = (
        "data_format: channels_last  input { shape: [5, 8, 6, 3] }  "
        "TimeDistributed { layer: Conv2D { filters: 2  kernel_size: 3 } }"
    )
    model = model_from_text(text)
    assert model.predict(np.zeros((2, 5, 8, 6, 3), "float32")).shape == (2, 5, 6, 4, 2)
    assert model_from_text(model.to_text()).net == model.net


def test_an_input_may_differ_and_preprocessing_follows_it():
    text = text_of(
        "data_format: channels_last", "[3, 12, 10]", "  data_format: channels_first", "channels_last"
    ).replace("  data_format: channels_last }  Resizing", " }  Resizing")
    text = text.replace("width: 10  data_format: channels_last", "width: 10")
    text = text.replace("\nConv2D", "\nPermute { dims: [2, 3, 1] }\nConv2D")
    model = model_from_text(text)
    assert [layer.data_format for layer in model.net.preprocess] == ["channels_first"] * 2
    assert model.net.augment[0].data_format == "channels_first"
    assert model.predict(np.ones((2, 3, 20, 30), "float32")).shape == (2, 3)
    assert model_from_text(model.to_text()).net == model.net


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data_format: channels_latest", "channels_first or channels_last"),
        ("data_format: 3", "channels_first or channels_last"),
        ("data_format: channels_last\ndata_format: channels_first", "'data_format' is given twice"),
        ("dataformat: channels_last", "data_format"),
    ],
)
def test_a_wrong_line_is_refused_with_its_place(text, message):
    with pytest.raises(TextError, match=message) as error:
        model_from_text(f"{text}\ninput {{ shape: [3] }}  Dense {{ units: 2 }}")
    assert "<text>:" in str(error.value)


def _twins(fit=""):
    """A net with its channels last, and the same with its channels first."""
    last = model_from_text(LINE + fit)
    first = model_from_text(text_of("data_format: channels_first", "[3, 12, 10]") + fit)
    first.set_weights(last.get_weights())
    return last, first


def test_both_formats_compute_the_same():
    last, first = _twins()
    images = np.random.default_rng(0).integers(0, 256, (6, 12, 10, 3)).astype("uint8")
    expected = last.predict(images)
    np.testing.assert_allclose(first.predict(np.moveaxis(images, -1, 1)), expected, rtol=1e-5)
    labels = np.arange(6) % 3
    for model, x in ((last, images), (first, np.moveaxis(images, -1, 1))):
        model.fit(x, labels, epochs=2, batch_size=3, shuffle=False, verbose=0)
    for name, array in last.weights.items():
        np.testing.assert_allclose(first.weights[name], array, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("shape", [(20, 16, 3), (12, 10, 3)])
def test_image_files_are_given_with_their_channels_where_the_input_has_them(tmp_path, shape):
    rng = np.random.default_rng(1)
    paths = []
    for i in range(6):
        path = tmp_path / "images" / "abc"[i % 3] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, shape).astype("uint8")).save(path)
        paths.append(str(path))
    source = tmp_path / "images"
    last, first = _twins(f'fit {{ data {{ source: "{source}"  shuffle: false }}  epochs: 2  batch_size: 3 }}')
    np.testing.assert_allclose(last.predict(paths), first.predict(paths), rtol=1e-5)
    histories = [model.fit(verbose=0).history["loss"] for model in (last, first)]
    np.testing.assert_allclose(histories[0], histories[1], rtol=1e-5)


def test_a_saved_model_keeps_its_format(tmp_path):
    last, _ = _twins()
    last.save(tmp_path / "m.h5")
    again = pt.load_model(tmp_path / "m.h5")
    assert again.net == last.net
    x = np.ones((2, 12, 10, 3), "uint8")
    np.testing.assert_array_equal(again.predict(x), last.predict(x))


def test_an_input_in_python_has_the_field():
    x = pt.Input((12, 10, 3), data_format="channels_last")
    y = pt.layers.GlobalAveragePooling2D(data_format="channels_last")(x)
    model = pt.Model(x, y, preprocess=[pt.layers.Resizing(12, 10)])
    assert model.net.preprocess[0].data_format == "channels_last"
    assert model.predict(np.ones((2, 20, 16, 3), "float32")).shape == (2, 3)
    with pytest.raises(UsageError, match="data_format"):
        pt.Input((3,), data_format="last")


_OLD = "Permute { dims: [2, 1] }  Conv1D { filters: 2  kernel_size: 3 }"


def test_the_old_spelling_of_a_layer_over_sequences_is_refused_with_both_spellings():
    with pytest.raises(ModelError) as error:
        model_from_text(f"input {{ shape: [9, 4] }}  {_OLD}").summary()
    message = str(error.value)
    assert "<text>:1:" in message
    assert "Leave the Permute out" in message
    assert "data_format: channels_first" in message
    x = pt.Input((9, 4))
    model = pt.Model(x, pt.layers.GlobalAveragePooling1D()(pt.layers.Permute([2, 1])(x)))
    with pytest.raises(ModelError, match="Leave the Permute out"):
        model.predict(np.zeros((1, 9, 4), "float32"))


@pytest.mark.parametrize(("data_format", "shape"), [("channels_first", [2, 7]), ("channels_last", [2, 2])])
def test_a_stated_format_behind_a_permute_is_taken(data_format, shape):
    model = model_from_text(f"input {{ shape: [9, 4] }}  {_OLD[:-1]}  data_format: {data_format} }}")
    assert list(model.predict(np.zeros((1, 9, 4), "float32")).shape[1:]) == shape


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float16", "float32", "float64", "bool"])
def test_one_batch_is_preprocessed_as_a_loader_does(dtype):
    model, _ = _twins()
    images = np.random.default_rng(2).integers(0, 2 if dtype == "bool" else 200, (30, 20, 16, 3)).astype(dtype)
    whole = model.predict(images, batch_size=7)  # by a loader
    np.testing.assert_allclose(model.predict_on_batch(images[:3]), whole[:3], rtol=1e-5)
