"""Looking at models from outside: predictions from files, with the names of the classes; summaries."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import prototorch as pt
from prototorch.errors import DataError, TextError
from prototorch.model.diagnose import check_model, find_warnings
from prototorch.model.load import model_from_text
from prototorch.model.prediction import predict_files

COLOR = """
name: "color"
input { name: "image"  shape: [3, 8, 8] }
preprocess { Resizing { height: 8  width: 8 } Rescaling { scale: 0.01 } }
Conv2D { filters: 4  kernel_size: 3 }
Flatten { }
Dense { units: 2  name: "logits" }
compile { loss: sparse_categorical_crossentropy { from_logits: true }  metrics: [accuracy] }
fit { data { source: "photos" } epochs: 1 }
"""


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A folder with a class of red and one of blue pictures, of several sizes."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for label, name in enumerate(("blue sky", "red brick")):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for i in range(6):
            pixels = rng.integers(0, 60, (9, 9, 3)).astype(np.uint8)
            pixels[..., 2 - 2 * label] += 180
            Image.fromarray(pixels).save(folder / f"{i}.png")
    return tmp_path


@pytest.fixture
def saved(photos):
    """A model trained on them, saved, and loaded with nothing else."""
    model = model_from_text(COLOR)
    model.fit(epochs=30, verbose=0)
    model.save("color.h5")
    return pt.load_model("color.h5")


def test_a_saved_model_knows_the_names_of_its_classes(saved):
    Image.new("RGB", (30, 20), (220, 10, 10)).save("wall.jpg")
    found = predict_files(saved, ["wall.jpg"])
    ((best, score), _) = found.top_classes("logits", 0, 5)
    assert best == "red brick"
    assert score > 0.5
    assert found.format_lines(1)[0].startswith("wall.jpg: red brick 0.")
    (shown,) = found.as_dicts(1)
    assert shown["classes"]["logits"][0]["class"] == "red brick"


def test_a_source_given_in_python_leaves_its_class_names_too(photos):
    model = model_from_text(COLOR.split("fit {")[0])
    model.fit("photos", verbose=0)
    assert 'classes: ["blue sky", "red brick"]' in model.to_text()
    assert tuple(model.fit_block.data.classes) == ("blue sky", "red brick")


def test_grey_pictures_folders_and_a_broken_one(saved):
    Image.new("L", (12, 12), 128).save("photos/grey.png")
    Path("photos/broken.png").write_bytes(b"\x89PNG\r\n\x1a\nno")
    found = predict_files(saved, ["photos"])
    assert len(found.names) == 13
    assert [said.split(":")[0] for said in found.read_errors] == ["photos/broken.png"]
    with pytest.raises(DataError, match=r"broken\.png"):
        predict_files(saved, ["photos/broken.png"])


@pytest.mark.parametrize(
    ("name", "arrays", "said"),
    [
        ("a.npy", np.zeros((2, 3, 8)), r"a\.npy: .*\[3, 8\]"),
        ("b.npz", {"p": np.zeros((2, 3, 8, 8)), "q": np.zeros(2)}, "holds p, q; the model reads image"),
        ("c.npy", np.zeros((0, 3, 8, 8)), "empty"),
    ],
)
def test_an_array_that_does_not_fit_is_named(saved, name, arrays, said):
    if isinstance(arrays, dict):
        np.savez(name, **arrays)
    else:
        np.save(name, arrays)
    with pytest.raises(DataError, match=said):
        predict_files(saved, [name])


def test_an_npz_may_hold_more_than_the_inputs(saved):
    np.savez("x.npz", image=np.zeros((2, 3, 8, 8), np.uint8), label=np.zeros(2))
    assert predict_files(saved, ["x.npz"]).outputs["logits"].shape == (2, 2)


def test_each_output_is_shown_by_its_own_loss():
    model = model_from_text("""
        input { name: "x"  shape: [4] }
        Dense { name: "kind"   bottom: "x"  units: 3 }
        Dense { name: "price"  bottom: "x"  units: 2 }
        Dense { name: "yes"    bottom: "x"  units: 1 }
        output: ["kind", "price", "yes"]
        compile {
          loss { output: "kind"   type: sparse_categorical_crossentropy { from_logits: true } }
          loss { output: "price"  type: mse }
          loss { output: "yes"    type: binary_crossentropy { from_logits: true } }
        }""")
    from prototorch.model.prediction import output_kinds

    assert output_kinds(model) == {"kind": "softmax", "price": "values", "yes": "sigmoid"}


def test_numbers_as_labels_are_read_beside_known_class_names(photos):
    """A model that knows its classes' names can still be measured on labels that are numbers."""
    Path("list.txt").write_text("photos/blue sky/0.png 0\nphotos/red brick/0.png 1\n")
    found = pt.Data(source="list.txt", classes=["blue sky", "red brick"]).open()
    assert found.column_array("label").tolist() == [0, 1]
    Path("table.csv").write_text("a,b,label\n1,2,0\n3,4,1\n")
    found = pt.Data(source="table.csv", classes=["blue sky", "red brick"]).open()
    assert found.column_array("label").tolist() == [0, 1]


def test_as_json_all_of_it_is_plain(saved):
    from prototorch.cli.json_output import to_plain_types

    found = predict_files(saved, ["photos"])
    assert json.loads(json.dumps(to_plain_types(found.as_dicts(2))))[0]["name"] == "photos/blue sky/0.png"


@pytest.mark.parametrize(
    ("activation", "loss", "said"),
    [
        ("softmax", "sparse_categorical_crossentropy { from_logits: true }", "ends with Softmax"),
        ("linear", "sparse_categorical_crossentropy", "takes probabilities, but 'y' has the activation Linear"),
        ("relu", "binary_crossentropy", "activation: sigmoid"),
        ("linear", "sparse_categorical_crossentropy { from_logits: true }", None),
        ("softmax", "categorical_crossentropy", None),
        ("linear", "mse", None),
    ],
)
def test_check_notes_a_softmax_too_much_or_too_few(activation, loss, said):
    model = model_from_text(f"""
        input {{ name: "x"  shape: [4] }}
        Dense {{ name: "y"  units: 3  activation: {activation} }}
        compile {{ loss: {loss} }}""")
    found = find_warnings(model)
    assert len(found) == (said is not None)
    assert said is None or said in found[0]


def test_a_dense_layer_on_an_image_is_noted():
    image = "input { shape: [1, 8, 8] }\n"
    (note,) = find_warnings(model_from_text(image + 'Dense { name: "a"  units: 2 }', "m.proto"))
    assert note.startswith("m.proto:2:1: the layer 'a' (Dense) reads an image")
    assert "Flatten { } or GlobalAveragePooling2D { }" in note
    assert find_warnings(model_from_text(image + "Flatten { }\nDense { units: 2 }")) == []
    conv = "Conv2D { filters: 2  kernel_size: 3 }\nMaxPooling2D { }\n"
    assert len(find_warnings(model_from_text(image + conv + "Dense { units: 2 }\nDense { units: 2 }"))) == 2
    assert find_warnings(model_from_text(image + conv + "GlobalAveragePooling2D { }\nDense { units: 2 }")) == []


@pytest.mark.parametrize(
    ("shape", "said"), [("[28, 28, 1]", "channels-first here: [1, 28, 28]"), ("[none, 1, 28, 28]", "[1, 28, 28]")]
)
def test_inputs_written_for_another_library_are_told(tmp_path, shape, said):
    path = tmp_path / "m.proto"
    path.write_text(f"input {{ shape: {shape} }}\nConv2D {{ filters: 8  kernel_size: 3 }}\n")
    with pytest.raises(TextError) as wrong:
        check_model(str(path))
    assert said in str(wrong.value)


def test_an_input_read_with_its_channels_last_is_not_told_to_be_of_another_library(tmp_path):
    path = tmp_path / "m.proto"
    convolution = "Conv2D { filters: 8  kernel_size: 30  data_format: channels_last }"
    path.write_text(f"input {{ shape: [28, 28, 1] }}\n{convolution}\n")
    with pytest.raises(TextError, match="kernel size 30") as wrong:
        check_model(str(path))
    assert "channels-first here" not in str(wrong.value)
