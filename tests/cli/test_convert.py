"""`prototorch convert`: files of all systems by one command; nothing half-written, nothing overwritten unasked."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner, Result

import prototorch as pt
from prototorch.cli.main import group
from prototorch.errors import FileError, PrototorchError, UsageError, WeightsError
from prototorch.interop import importers
from prototorch.interop.conversion import convert
from prototorch.interop.conversion.sources import WeightOptions
from prototorch.interop.imported_model import ImportedModel
from prototorch.interop.importers.model_format import ModelFormat
from prototorch.model.load import model_from_text

TEXT = """
name: "net"
input { name: "x"  shape: [3, 6, 7] }
Conv2D { name: "a"  filters: 4  kernel_size: 3 }
GlobalAveragePooling2D { }
Dense { name: "fc"  units: 5 }
"""


def _state() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    shapes = {"conv1.weight": (4, 3, 3, 3), "conv1.bias": (4,), "fc.weight": (5, 4), "fc.bias": (5,)}
    return {f"module.{name}": torch.randn(shape) for name, shape in shapes.items()}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a text, weights of PyTorch, and a saved model."""
    monkeypatch.chdir(tmp_path)
    Path("net.proto").write_text(TEXT, encoding="utf-8")
    torch.save({"state_dict": _state()}, "w.pt")
    model = model_from_text(TEXT)
    model.build()
    model.save("net.h5")
    return tmp_path


def _run(*args: str) -> Result:
    return CliRunner().invoke(group, ["convert", *args], catch_exceptions=True)


def _files(folder: Path) -> set[str]:
    return set(os.listdir(folder))


def test_weights_of_another_system_become_a_saved_model(folder: Path):
    result = _run("w.pt", "--model", "net.proto", "--by-order", "-o", "out.h5")
    assert result.exit_code == 0, result.output
    assert "4 weights loaded, 1 of them changed from the layouts of torch (transposed (1, 0))" in result.output
    model = pt.load_model("out.h5")
    np.testing.assert_array_equal(model.weights["fc/kernel"], _state()["module.fc.weight"].numpy().T)


def test_pairs_are_written_as_rules_edited_and_used(folder: Path):
    assert _run("w.pt", "--model", "net.proto", "--write-rules", "rules.proto").exit_code == 0
    text = Path("rules.proto").read_text(encoding="utf-8")
    assert 'map { from: "module.conv1"  to: "a" }' in text
    result = _run("w.pt", "--model", "net.proto", "--rules", "rules.proto", "-o", "out.h5")
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(pt.load_model("out.h5").weights["a/kernel"], _state()["module.conv1.weight"].numpy())


def test_what_has_no_partner_stands_in_the_rules_as_comments(folder: Path):
    torch.save({**_state(), "module.extra.weight": torch.zeros(2, 2)}, "w2.pt")
    assert _run("w2.pt", "--model", "net.proto", "--write-rules", "rules.proto").exit_code == 0
    text = Path("rules.proto").read_text(encoding="utf-8")
    assert "# in the file, without a partner: module.extra" in text


def test_weights_that_do_not_fit_are_an_error_that_shows_the_pairs_and_write_nothing(folder: Path):
    before = _files(folder)
    result = _run("w.pt", "--model", "net.proto", "-o", "out.h5")
    assert isinstance(result.exception, WeightsError)
    assert "module.conv1 -> a" in str(result.exception)
    assert _files(folder) == before


def test_a_saved_model_becomes_a_text_with_its_weights_beside_it(folder: Path):
    result = _run("net.h5", "-o", "copy.proto", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["files"] == ["copy.proto", "copy.h5"]
    text, saved = pt.load_model("copy.proto"), pt.load_model("net.h5")
    for name, array in saved.weights.items():
        np.testing.assert_array_equal(text.weights[name], array)


def test_a_converted_text_finds_its_weights_from_any_folder(folder: Path, monkeypatch: pytest.MonkeyPatch):
    convert("net.h5", "net.onnx")
    for name in ("models", "elsewhere"):
        (folder / name).mkdir()
    convert("net.onnx", "models/copy.proto", weights_to="elsewhere/weights.h5")
    assert 'source: "../elsewhere/weights.h5"' in Path("models/copy.proto").read_text(encoding="utf-8")
    x = np.random.default_rng(0).standard_normal((2, *pt.load_model("net.h5").net.inputs[0].shape)).astype(np.float32)
    expected = pt.load_model("net.h5").predict(x, verbose=0)
    monkeypatch.chdir(folder / "elsewhere")
    model = pt.load_model("../models/copy.proto")
    np.testing.assert_allclose(model.predict(x, verbose=0), expected, rtol=1e-5, atol=1e-6)


def test_other_weights_at_the_place_of_a_converted_text_are_refused_with_both_digests(folder: Path):
    convert("net.h5", "copy.proto")
    stated = re.search(r"sha256:[0-9a-f]{64}", Path("copy.proto").read_text(encoding="utf-8"))
    assert stated is not None
    other = pt.load_model("net.h5")
    other.weights["fc/kernel"] = other.weights["fc/kernel"] + 1
    other.save("copy.h5")
    with pytest.raises(WeightsError) as raised:
        pt.load_model("copy.proto")
    assert stated[0] in str(raised.value)
    assert len(set(re.findall(r"sha256:[0-9a-f]{64}", str(raised.value)))) == 2


@pytest.mark.parametrize("target", ["a.onnx", "a.pt", "a.h5"])
def test_a_text_that_is_written_with_initial_weights_is_noted(folder: Path, target: str):
    (note,) = convert("net.proto", target).notes
    assert note == "net.proto is a text, which holds no weights: those written are initial, untrained"


@pytest.mark.parametrize("name", ["a.pt", "a.safetensors", "a.npz", "a.keras", "a.weights.h5", "a.onnx"])
def test_weights_come_back_exactly_from_every_format(folder: Path, name: str):
    saved = pt.load_model("net.h5")
    convert("net.h5", name)
    convert(name, "back.h5", model="net.proto", matching=WeightOptions(by_order=name.endswith(".onnx")))
    back = pt.load_model("back.h5")
    for weight, array in saved.weights.items():
        np.testing.assert_array_equal(back.weights[weight], array)


def test_a_text_has_no_weights_to_write(folder: Path):
    assert convert("net.proto", "other.proto").paths == ("other.proto",)
    with pytest.raises(UsageError, match="is a text, which has no weights"):
        convert("net.proto", "third.proto", weights_to="w.h5")


def test_arrays_keep_their_names_without_a_model(folder: Path):
    result = convert("w.pt", "w.npz")
    assert "names and layouts of the arrays stay as they are" in result.notes[0]
    with np.load("w.npz") as archive:
        assert set(archive) == set(_state())
        np.testing.assert_array_equal(archive["module.fc.weight"], _state()["module.fc.weight"].numpy())


def test_a_model_with_other_classes_keeps_its_head_by_except(folder: Path):
    Path("seven.proto").write_text(TEXT.replace("units: 5", "units: 7").replace('"a"', '"conv1"'), encoding="utf-8")
    result = _run("w.pt", "--model", "seven.proto", "-o", "out.h5")
    assert 'except_=["fc/*"]' in str(result.exception)
    result = _run("w.pt", "--model", "seven.proto", "--except", "fc", "-o", "out.h5")
    assert result.exit_code == 0, result.output
    assert "2 left as they are: fc/kernel, fc/bias" in result.output


def test_files_that_exist_are_replaced_only_by_force(folder: Path):
    Path("out.h5").write_bytes(b"precious")
    with pytest.raises(FileError, match=r"out\.h5: exists; --force replaces it"):
        convert("net.h5", "out.h5")
    Path("copy.h5").write_bytes(b"precious")
    with pytest.raises(FileError, match=r"copy\.h5: exists"):
        convert("net.h5", "copy.proto")
    assert not Path("copy.proto").exists()
    assert Path("out.h5").read_bytes() == b"precious"
    convert("net.h5", "out.h5", force=True)
    assert pt.load_model("out.h5").count_params() == 4 * 27 + 4 + 20 + 5


def test_the_file_that_is_read_is_never_written(folder: Path):
    os.link("net.h5", "same.h5")
    for target in ("net.h5", "same.h5"):
        with pytest.raises(FileError, match="is the file that is read"):
            convert("net.h5", target, force=True)


def test_a_writer_that_fails_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch):
    before = _files(folder)
    monkeypatch.setattr(pt.Model, "save_weights", lambda self, path: Path(path).write_bytes(b"half") and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        convert("net.h5", "copy.proto")
    assert _files(folder) == before


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("net.h5",), "what is to be written"),
        (("w.pt", "-o", "w.proto"), "is a file of weights, which tells no net; --model TEXT"),
        (("w.pt", "-o", "w.h5"), "is a file of weights, which tells no net; --model TEXT"),
        (("w.pt", "-o", "w.onnx"), "ONNX needs the net as well: --model TEXT"),
        (("net.h5", "-o", "net.xyz"), r"no format that is written has this ending; there are \.proto"),
        (("net.h5", "-o", "net.out", "--to", "onyx"), "there is no format 'onyx'.*Did you mean 'onnx'"),
        (("net.h5", "-o", "none/net.onnx"), "there is no folder"),
        (("net.h5", "-o", "."), "is a folder|no format"),
        (("nowhere.pt", "-o", "a.h5"), "nowhere.pt: no such file"),
        (("w.pt", "--write-rules", "r.proto"), "--write-rules needs --model"),
        (("w.pt", "-o", "a.npz", "--set", "classes=5"), "--set needs a text of ours"),
        (("net.h5", "-o", "a.onnx", "--weights-to", "b.h5"), "--weights-to is for a text"),
        (("net.h5", "-o", "a.proto", "--option", "opset=17"), "has no option opset"),
        (("net.h5", "-o", "a.onnx", "--input-shape", "x=3,a"), "expected NAME=NUMBER"),
        (("net.h5", "-o", "a.onnx", "--fixed-input", "x=1"), "--fixed-input has no meaning for net.h5"),
        (("w.pt", "-o", "a.npz", "--batch-axis", "1"), "--batch-axis has no meaning for w.pt"),
        (("net.h5", "-o", "a.onnx", "--option", "opset"), "expected NAME=VALUE"),
        (("net.h5", "-o", "a.onnx", "--option", "opsets=17"), "no option 'opsets'"),
        (("w.pt", "--model", "net.proto", "-o", "a.h5", "--system", "pytorch"), "expected one of torch, keras"),
    ],
)
def test_what_cannot_be_converted_is_one_sentence(folder: Path, args: tuple[str, ...], message: str):
    before = _files(folder)
    result = _run(*args)
    assert isinstance(result.exception, PrototorchError), result.output
    with pytest.raises(PrototorchError, match=message):
        raise result.exception
    assert _files(folder) == before


def test_an_importer_that_is_there_is_used(folder: Path, monkeypatch: pytest.MonkeyPatch):
    source = model_from_text(TEXT.replace('"a"', '"stage.0.conv"'))
    source.build()
    weights = source.get_weights()
    imported = ImportedModel(source.net, weights, notes=("one thing to know",))
    fake = ModelFormat("fake", "Fake", lambda file: file.head.startswith(b"FAKE"), lambda path: imported)
    monkeypatch.setattr(importers, "importers", lambda: (fake,))
    Path("model.fake").write_bytes(b"FAKE")
    result = convert("model.fake", "made.proto")
    assert result.paths == ("made.proto", "made.h5")
    assert result.notes == ("one thing to know",)
    model = pt.load_model("made.proto")
    model.load_weights("made.h5")
    x = np.random.default_rng(0).normal(size=(2, 3, 6, 7)).astype(np.float32)
    np.testing.assert_array_equal(model.predict(x), source.predict(x))
    assert "# one thing to know" in Path("made.proto").read_text(encoding="utf-8")


def test_an_importer_gets_the_options_that_it_has(folder: Path, monkeypatch: pytest.MonkeyPatch):
    source = model_from_text(TEXT)
    source.build()
    seen: dict[str, object] = {}

    def load(path: str, **options: object) -> ImportedModel:
        seen.update(options)
        return ImportedModel(source.net, source.get_weights())

    fake = ModelFormat("fake", "Fake", lambda file: file.ending == ".fake", load, ("input_shapes", "fixed_inputs"))
    monkeypatch.setattr(importers, "importers", lambda: (fake,))
    Path("model.fake").write_bytes(b"FAKE")
    args = ["--input-shape", "x=3,6,7", "--fixed-input", "rate=16000", "--fixed-input", "v=0.5,1"]
    result = _run("model.fake", "-o", "made.proto", *args)
    assert result.exit_code == 0, result.output
    assert seen == {"input_shapes": {"x": [3, 6, 7]}, "fixed_inputs": {"rate": 16000.0, "v": [0.5, 1.0]}}
    result = _run("model.fake", "-o", "second.proto", "--batch-axis", "1")
    assert "--batch-axis has no meaning" in str(result.exception)


def test_an_importer_whose_weights_are_not_those_of_its_net_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch):
    source = model_from_text(TEXT)
    source.build()
    weights = {name: array for name, array in source.get_weights().items() if name != "fc/bias"}
    fake = ModelFormat(
        "fake", "Fake", lambda file: file.ending == ".fake", lambda path: ImportedModel(source.net, weights)
    )
    monkeypatch.setattr(importers, "importers", lambda: (fake,))
    Path("model.fake").write_bytes(b"FAKE")
    with pytest.raises(FileError, match="its weights are not those of its net: "):
        convert("model.fake", "made.proto")


@pytest.mark.parametrize(("target", "files"), [
    ("out.onnx", {"out.onnx"}), ("out.py", {"out.py", "out.pt"}), ("out.pt", {"out.pt"}),
    ("out.safetensors", {"out.safetensors"}), ("out.keras", {"out.keras"}), ("out.weights.h5", {"out.weights.h5"}),
])  # fmt: skip
def test_a_saved_model_goes_into_every_format(folder: Path, target: str, files: set[str]):
    before = _files(folder)
    result = _run("net.h5", "-o", target)
    assert result.exit_code == 0, result.output
    assert _files(folder) - before == files
    assert all(name in result.output for name in files)


def test_options_of_a_format_are_given_by_name(folder: Path):
    result = _run("net.h5", "-o", "out.onnx", "--option", "opset=15", "--option", "external_data=true")
    assert result.exit_code == 0, result.output
    assert onnx.load("out.onnx").opset_import[0].version == 15
    assert Path("out.onnx.data").exists()
    refused = _run("net.h5", "-o", "other.onnx", "--option", "opset=5")
    assert refused.exit_code != 0
    assert not Path("other.onnx").exists()


def test_the_module_of_pytorch_by_its_format_name(folder: Path):
    assert _run("net.h5", "--to", "torch", "-o", "out.pt").exit_code == 0
    assert Path("out.py").exists()
    assert torch.load("out.pt", weights_only=True).keys() == {"a.weight", "a.bias", "fc.weight", "fc.bias"}


def test_messages_name_the_options_of_the_command(folder: Path):
    Path("other.proto").write_text(TEXT.replace('"fc"', '"head"'))
    convert("net.h5", "theirs.pt")
    result = _run("theirs.pt", "--model", "other.proto", "-o", "a.h5")
    message = str(result.exception)
    assert "(--by-name loads those that do)" in message
    assert "; --by-order takes them so:" in message
    assert "=True" not in message
