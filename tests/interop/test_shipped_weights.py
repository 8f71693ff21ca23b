"""The weights that come with prototorch: what their files hold and are worth, and their use without a network."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import prototorch as pt
from prototorch.cli import main
from prototorch.data.builtin_datasets import FASHION_MNIST_CLASSES, load_builtin_dataset
from prototorch.errors import FileError, UsageError
from prototorch.interop.downloads.cache import path_of_address
from prototorch.interop.downloads.digests import digests_of_file
from prototorch.interop.weight_sets.registry import list_sets, read_sets

SETS = {one.weights.model: one for one in list_sets() if one.is_included}
MINI_ACCURACY = {"lenet": 0.927, "mlp": 0.909, "resnet20": 0.947}  # of fashion-mnist-mini's 1,000 test images
MAX_BYTES = 3_000_000


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is downloaded, and no folder of downloads is there."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something is downloaded")

    monkeypatch.setattr("prototorch.interop.downloads.fetch_file", refuse)
    monkeypatch.setenv("PROTOTORCH_HOME", str(tmp_path / "home"))


def mini(part: str) -> tuple[np.ndarray, np.ndarray]:
    """The images and labels of a part of fashion-mnist-mini."""
    dataset = load_builtin_dataset("fashion-mnist-mini")[part]
    return dataset.column_array("image"), dataset.column_array("label")


def test_models_have_weights():
    assert sorted(SETS) == sorted(MINI_ACCURACY)


@pytest.mark.parametrize("name", sorted(SETS))
def test_a_file_is_that_of_its_declaration_and_of_its_text(name: str):
    """The digest and the accuracy that are declared are the file's; its net is the shipped model's, its training the
    text's beside it, its preprocessing and classes the declaration's."""
    declared = SETS[name].weights
    path = path_of_address(declared.address)
    assert path.stat().st_size < MAX_BYTES
    assert declared.digest == f"sha256:{digests_of_file(path).sha256}"
    saved, text = pt.load_model(path), pt.load_model(path.with_suffix(".proto"))
    shipped = pt.load_model(name)
    assert (text.net.nodes, text.net.inputs, text.net.outputs) == (
        shipped.net.nodes,
        shipped.net.inputs,
        shipped.net.outputs,
    )
    images = mini("test")[0][:16]  # a file of an older format may write the same layers otherwise: they predict alike
    expected = pt.load_model(name, weights="fashion-mnist").predict(images, verbose=0)
    np.testing.assert_array_equal(saved.predict(images, verbose=0), expected)
    assert text.net.preprocess == tuple(declared.preprocess)
    assert saved.net.augment == text.net.augment
    assert saved.compile_block.optimizer == text.compile_block.optimizer
    assert text.fit_block.data.source == saved.fit_block.data.source == "fashion-mnist"
    assert text.fit_block.data.limit is None
    assert SETS[name].class_names() == FASHION_MNIST_CLASSES == tuple(saved.fit_block.data.classes)
    history = saved.history
    assert history.epoch == list(range(text.fit_block.epochs))
    assert 100 * history.history["val_accuracy"][-1] == pytest.approx(declared.top1, abs=0.005)


@pytest.mark.parametrize("name", sorted(SETS))
def test_the_accuracy_on_the_small_test_set(name: str):
    model = pt.load_model(name, weights="fashion-mnist")
    assert model.net.class_names == FASHION_MNIST_CLASSES
    data = pt.Data(source="fashion-mnist-mini", part="test")
    accuracy = model.evaluate(data, batch_size=250, verbose=0, return_dict=True)["accuracy"]
    assert accuracy == pytest.approx(MINI_ACCURACY[name], abs=0.0021)


def test_pretrained_true_is_the_set_of_a_model_without_imagenet():
    weights = pt.load_model("lenet", weights="prototorch/lenet-fashion-mnist").weights
    for name, array in pt.models.lenet(pretrained=True).weights.items():
        np.testing.assert_array_equal(array, weights[name])


@pytest.mark.parametrize("form", [("L", (28, 28)), ("RGB", (90, 70))], ids=str)
def test_a_picture_gets_the_name_of_its_class(form: tuple[str, tuple[int, int]], tmp_path: Path, capsys):
    images, labels = mini("test")
    index = int(np.flatnonzero(labels == FASHION_MNIST_CLASSES.index("Ankle boot"))[0])
    mode, size = form
    Image.fromarray(images[index, 0]).convert(mode).resize(size).save(tmp_path / "shoe.png")
    with pytest.raises(SystemExit) as done:
        main(["predict", "lenet", "--weights", "fashion-mnist", str(tmp_path / "shoe.png")])
    out, err = capsys.readouterr()
    assert not done.value.code
    assert "shoe.png: Ankle boot 0." in out or "shoe.png: Ankle boot 1.0" in out
    assert "weights: prototorch/lenet-fashion-mnist (by prototorch, on Fashion-MNIST, top-1 " in err


def test_the_list_begins_with_them_and_names_their_aliases(capsys):
    def shell(*arguments: str) -> str:
        with pytest.raises(SystemExit) as done:
            main(["weights", *arguments])
        assert not done.value.code
        return capsys.readouterr().out

    lines = shell("list").splitlines()
    assert [line.split()[1] for line in lines[: len(SETS)]] == sorted(SETS)
    assert all("comes with prototorch" in line and line.endswith("(fashion-mnist)") for line in lines[: len(SETS)])
    assert not any("comes with prototorch" in line for line in lines[len(SETS) :])
    (row,) = json.loads(shell("list", "mlp", "--json"))["sets"]
    assert (row["included"], row["cached"], row["aliases"]) == (True, True, ["fashion-mnist"])
    name = SETS["mlp"].weights.name
    assert shell("path", name) == shell("fetch", name)
    assert shell("verify", name).endswith(", as published\n")
    assert "val_accuracy" in shell("show", name)


def test_another_head_is_trained_on_their_features():
    """The head begins anew, without the classes' names; frozen layers keep the values of the file."""
    weights = pt.Weights("fashion-mnist", except_=["logits/*"])
    model = pt.load_model("lenet", classes=2, weights=weights)
    published = pt.load_model("lenet", weights="fashion-mnist").weights
    assert model.net.class_names == ()
    assert model.weights["logits/kernel"].shape == (500, 2)
    images, labels = mini("train")
    images, are_shoes = images[:400], np.isin(labels[:400], (5, 7, 9)).astype("int64")
    loss = pt.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(pt.optimizers.Adam(1e-2), loss, metrics=["accuracy"], freeze=["**", "!logits"])
    history = model.fit(images, are_shoes, epochs=2, batch_size=32, verbose=0)
    assert history.history["accuracy"][-1] > 0.97
    for name in ("conv2d_1/kernel", "dense_1/kernel"):
        np.testing.assert_array_equal(model.weights[name], published[name])


@pytest.mark.parametrize(
    ("model", "weights", "params", "message"),
    [
        ("alexnet", "fashion-mnist", {}, "'alexnet' has no weights 'fashion-mnist'; it has bvlc/alexnet; models with "
                                         "'fashion-mnist' are lenet, mlp, resnet20"),
        ("lenet", "imagenet", {}, "it has prototorch/lenet-fashion-mnist; models with 'imagenet' are alexnet_torch"),
        ("lenet", "fashion-mnist", {"classes": 5}, r"logits/kernel \[500, 10\] there and \[500, 5\] here.*except"),
        ("mlp", "fashion-mnist", {"hidden": [64]}, "belongs to the model 'mlp', and this net has other layers"),
        ("lenet", "prototorch/mlp-fashion-mnist", {}, r'Use load_model\("mlp", weights="prototorch/mlp-fashion-mnist"'),
        ("lenet", "fashion-mnits", {}, "Did you mean 'fashion-mnist'"),
    ],
)  # fmt: skip
def test_wrong_uses_say_what_to_write(model: str, weights: str, params: dict, message: str):
    with pytest.raises(UsageError, match=message):
        pt.load_model(model, weights=weights, **params)


def test_a_relative_address_is_one_beside_the_declaration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder of one's own with a text, its declaration and its file; a file with another digest is refused."""
    source = SETS["lenet"].path
    (tmp_path / "weights" / "fashion_mnist").mkdir(parents=True)
    file = tmp_path / "weights" / "fashion_mnist" / "lenet.h5"
    shutil.copy(source, tmp_path / "weights" / "mine.proto")
    shutil.copytree(source.parent / "classes", tmp_path / "weights" / "classes")
    shutil.copy(path_of_address(SETS["lenet"].weights.address), file)
    text = SETS["lenet"].model_path.read_text(encoding="utf-8").replace('"lenet"', '"mine"', 1)
    (tmp_path / "mine.proto").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path.parent)
    assert path_of_address(read_sets(tmp_path / "weights" / "mine.proto")[0].weights.address) == file
    with pytest.raises(FileError, match="--allow-download"):
        pt.load_model(tmp_path / "mine.proto", weights="fashion-mnist", allow_download=False)
    model = pt.load_model(tmp_path / "mine.proto", weights="fashion-mnist", allow_download=True)
    assert model.net.class_names == FASHION_MNIST_CLASSES
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(FileError, match=r"lenet\.h5: expected sha256 .* as published, found"):
        pt.load_model(tmp_path / "mine.proto", weights="fashion-mnist", allow_download=True)


# ---------------------------------------------------------------- the history in a saved model


def test_a_saved_model_tells_the_history_of_its_training(tmp_path: Path):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((32, 4)).astype("f4"), rng.integers(0, 2, 32)
    model = pt.Sequential([pt.Input((4,)), pt.layers.Dense(2)])
    model.compile("adam", pt.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.save_weights(tmp_path / "untrained.h5")
    assert pt.load_model(tmp_path / "untrained.h5").history is None
    history = model.fit(x, y, epochs=3, validation_split=0.25, verbose=0)
    model.save(tmp_path / "whole.h5")
    model.save_weights(tmp_path / "weights.h5")
    for name in ("whole", "weights"):
        loaded = pt.load_model(tmp_path / f"{name}.h5").history
        assert (loaded.epoch, loaded.history, loaded.weights_epoch) == ([0, 1, 2], history.history, 2)


def test_older_files_tell_it_in_the_state_of_the_training(tmp_path: Path):
    from prototorch.engine.storage import checkpoint

    model = pt.load_model("lenet")
    images, labels = mini("test")
    model.fit(images[:64], labels[:64], epochs=2, batch_size=64, verbose=0)
    history = model.history.history
    checkpoint.save(tmp_path / "old.h5", model.to_text(), model.variables, model.trainer.state())
    assert pt.load_model(tmp_path / "old.h5").history.history == history


def test_a_history_that_fit_cannot_have_written_is_refused(tmp_path: Path):
    from prototorch.engine.storage import checkpoint

    model = pt.load_model("lenet")
    for history in ({"epoch": [0]}, {"epoch": ["a"], "history": {}}, {"epoch": [0], "history": {"loss": ["x"]}}):
        checkpoint.save(tmp_path / "wrong.h5", model.to_text(), model.weights, None, history=history)
        with pytest.raises(pt.errors.ModelFileError, match=r"wrong\.h5: its history is wrong"):
            pt.load_model(tmp_path / "wrong.h5")
