"""Weight sets: by name, alias, address and path; each loads into its own model and no other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import prototorch as pt
from prototorch.base.package_files import shipped_models
from prototorch.errors import FileError, TextError, UsageError
from prototorch.graph.probe import trace_net
from prototorch.interop.weight_sets.declaration import WeightSet
from prototorch.interop.weight_sets.model_matching import check_belongs
from prototorch.interop.weight_sets.registry import DeclaredSet, list_sets, read_sets
from prototorch.model.weights_block import Weights
from tests.interop.torchvision_nets import photo, save_state, torchvision_net

SETS = {one.weights.name: one for one in list_sets()}


@pytest.mark.parametrize("name", sorted(SETS))
def test_the_rules_reach_every_weight_of_the_model(name: str):
    """Each layer with weights is the target of exactly one rule, and its model is a shipped one. A file of prototorch
    has the model's own names, and needs no rule."""
    weights = SETS[name].weights
    assert weights.model in shipped_models()
    targets = [rule.to for rule in weights.rules.map]
    if weights.system == "prototorch":
        assert not targets
        return
    specs = trace_net(pt.load_model(weights.model).net, 1).weights
    layers = {name.rpartition("/")[0] for name in specs}
    assert len(targets) == len(set(targets))
    assert {t if t in layers else t.rpartition("/")[0] for t in targets} == layers


@pytest.mark.parametrize("name", sorted(SETS))
def test_a_set_belongs_to_its_model_and_to_no_other(name: str):
    declared = SETS[name]
    check_belongs(declared, pt.load_model(declared.weights.model).net)
    other = "resnet20" if declared.weights.model != "resnet20" else "lenet"
    with pytest.raises(
        UsageError, match=f"belongs to the model .{declared.weights.model}., not to .{other}.*load_model"
    ):
        check_belongs(declared, pt.load_model(other).net)


# ---------------------------------------------------------------- names, texts, errors


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the file of torchvision/squeezenet1_1 (random weights, its digest not the published one), and a
    declaration of it beside a text."""
    (tmp_path / "weights" / "classes").mkdir(parents=True)
    monkeypatch.setenv("PROTOTORCH_HOME", str(tmp_path / "home"))
    save_state(torchvision_net("squeezenet1_1"), tmp_path / "published.pth", "zip")
    text = shipped_models()["squeezenet1_1"].read_text(encoding="utf-8").replace('"squeezenet1_1"', '"mine"', 1)
    (tmp_path / "mine.proto").write_text(text, encoding="utf-8")
    (tmp_path / "weights" / "classes" / "kinds.txt").write_text("".join(f"kind {i}\n" for i in range(1000)))
    (tmp_path / "weights" / "mine.proto").write_text(
        f"""param fires: [3, 4, 6, 7, 9, 10, 11, 12]
        weight_set {{
          name: "we/mine"  alias: "published"  model: "mine"
          address: "file:{tmp_path}/published.pth"
          format: "PyTorch"  system: "torch"  license: "ours"  trained_by: "us"  classes: "kinds"
          preprocess {{ Resizing {{ height: 224  width: 224 }} Rescaling {{ scale: $(1 / 128)  offset: -1 }} }}
          rules {{
            map {{ from: "features.0"  to: "conv1" }}
            repeat i in $range(8) {{
              repeat part in ["squeeze", "expand1x1", "expand3x3"] {{
                map {{ from: "features.${{fires[i]}}.${{part}}"  to: "fire${{i + 2}}/${{part}}" }}
              }}
            }}
            map {{ from: "classifier.1"  to: "conv10" }}
          }}
        }}
        """,
        encoding="utf-8",
    )
    return tmp_path


def conv1(model) -> np.ndarray:
    return model.weights["conv1/kernel"]


def published_kernel() -> np.ndarray:
    return torchvision_net("squeezenet1_1").state_dict()["features.0.weight"].numpy()


@pytest.mark.parametrize("what", ["we/mine", "published", "published.pth", "./published.pth"])
def test_a_set_beside_ones_own_text_by_each_of_its_names(mirror: Path, what: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(mirror)
    model = pt.load_model("mine.proto", weights=what, allow_download=True)
    np.testing.assert_array_equal(conv1(model), published_kernel())
    model = pt.load_model("mine.proto")
    model.load_weights(what, allow_download=True)
    np.testing.assert_array_equal(conv1(model), published_kernel())


def test_preprocessing_and_class_names_come_along_and_are_printed(mirror: Path, capsys: pytest.CaptureFixture):
    model = pt.load_model(mirror / "mine.proto", weights="we/mine", allow_download=True)
    error = capsys.readouterr().err
    assert "weights: we/mine (by us)" in error
    assert "Rescaling" in error
    assert "replaces that of the text" in error
    assert [type(layer).__name__ for layer in model.net.preprocess] == ["Resizing", "Rescaling"]
    assert model.net.class_names[:2] == ("kind 0", "kind 1")
    model.save(mirror / "saved.h5")
    again = pt.load_model(mirror / "saved.h5")
    assert again.net == model.net
    (mirror / "published.pth").unlink()  # a saved model needs no set
    assert pt.load_model(mirror / "saved.h5").net.class_names == model.net.class_names


def test_the_block_of_a_text_loads_once(mirror: Path, capsys: pytest.CaptureFixture):
    text = (mirror / "mine.proto").read_text(encoding="utf-8")
    path = mirror / "tuned.proto"
    path.write_text(
        text.replace('"mine"', '"tuned"').replace("classes: 1000", "classes: 5")
        + '\nweights { source: "published.pth"  except: "conv10/*" }\n',
        encoding="utf-8",
    )
    (mirror / "weights" / "tuned.proto").write_text(
        (mirror / "weights" / "mine.proto").read_text(encoding="utf-8").replace('model: "mine"', 'model: "tuned"'),
        encoding="utf-8",
    )
    model = pt.load_model(path)
    np.testing.assert_array_equal(conv1(model), published_kernel())
    assert model.weights["conv10/kernel"].shape[0] == 5
    assert model.net.class_names == ()
    assert not np.array_equal(conv1(pt.load_model(path, weights=False)), published_kernel())
    model.weights["conv1/bias"] = np.full(64, 7.0, np.float32)
    model.save(mirror / "tuned.h5")
    assert 'source: "' in model.to_text()
    (mirror / "published.pth").unlink()
    assert pt.load_model(mirror / "tuned.h5").weights["conv1/bias"][0] == 7.0
    with pytest.raises(FileError, match=r"published\.pth"):
        pt.load_model(path)


def test_an_address_in_a_text_is_opened_only_if_allowed(mirror: Path):
    path = mirror / "mine.proto"
    text = path.read_text(encoding="utf-8")
    for source in (f"file:{mirror}/published.pth", "we/mine", "https://127.0.0.1:9/x.pth"):
        path.write_text(f'{text}\nweights {{ source: "{source}" }}\n', encoding="utf-8")
        with pytest.raises(FileError, match="not opened unless you allow it"):
            pt.load_model(path)
    path.write_text(f'{text}\nweights {{ source: "we/mine" }}\n', encoding="utf-8")
    np.testing.assert_array_equal(conv1(pt.load_model(path, allow_download=True)), published_kernel())


@pytest.mark.parametrize("what", ["we/mine", "published", Weights("published")])
def test_the_address_of_a_set_beside_a_text_is_opened_only_if_allowed(mirror: Path, what):
    """Its name does not tell which address it stands for; the address itself, given here, is opened."""
    path = mirror / "mine.proto"
    with pytest.raises(
        FileError, match=r"'we/mine' \(in .*\) names the address 'file:.*not opened unless you allow it"
    ):
        pt.load_model(path, weights=what)
    model = pt.load_model(path, weights=False)
    for allow in (None, False):
        with pytest.raises(FileError, match="not opened unless you allow it"):
            model.load_weights(what, allow_download=allow)
    pt.load_model(path, weights=f"file:{mirror}/published.pth")
    with pytest.raises(FileError, match="not opened unless you allow it"):
        model.load_weights(f"file:{mirror}/published.pth", allow_download=False)


def test_convert_opens_the_address_of_a_set_beside_a_text_only_if_allowed(mirror: Path):
    from click.testing import CliRunner

    from prototorch.cli.main import group

    arguments = ["convert", "we/mine", "--model", str(mirror / "mine.proto"), "-o", str(mirror / "out.h5")]
    refused = CliRunner().invoke(group, arguments)
    assert refused.exit_code != 0
    assert "not opened unless you allow it" in str(refused.exception) + refused.output
    done = CliRunner().invoke(group, [*arguments, "--allow-download"])
    assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(conv1(pt.load_model(mirror / "out.h5")), published_kernel())


def test_a_request_is_made_only_if_allowed(mirror: Path, monkeypatch: pytest.MonkeyPatch):
    addresses: list[str] = []

    def download(address: str, **_: object) -> Path:
        addresses.append(address)
        return mirror / "published.pth"

    monkeypatch.setattr("prototorch.interop.weight_sets.opening.download", download)
    declared = mirror / "weights" / "mine.proto"
    text = declared.read_text(encoding="utf-8").replace(f"file:{mirror}/published.pth", "https://127.0.0.1:9/x.pth")
    declared.write_text(text, encoding="utf-8")
    with pytest.raises(FileError, match="not opened unless you allow it"):
        pt.load_model(mirror / "mine.proto", weights="published")
    assert addresses == []
    pt.load_model(mirror / "mine.proto", weights="published", allow_download=True)
    pt.load_model(mirror / "mine.proto", weights="https://127.0.0.1:9/x.pth")
    assert addresses == ["https://127.0.0.1:9/x.pth"] * 2


def test_another_number_of_classes_proposes_except(mirror: Path):
    with pytest.raises(UsageError, match=r'conv10/kernel .*1000.*there and .*5.* here.*except: \["conv10/\*"\]'):
        pt.load_model(mirror / "mine.proto", weights="we/mine", classes=5, allow_download=True)
    block = Weights("we/mine", except_=["conv10"])
    model = pt.load_model(mirror / "mine.proto", weights=block, classes=5, allow_download=True)
    np.testing.assert_array_equal(conv1(model), published_kernel())
    assert model.net.class_names == ()


def test_preprocess_of_the_text_may_stay(mirror: Path):
    block = Weights("we/mine", preprocess="text")
    model = pt.load_model(mirror / "mine.proto", weights=block, allow_download=True)
    assert model.net.preprocess == pt.load_model("squeezenet1_1").net.preprocess


@pytest.mark.parametrize(
    ("model", "what", "message"),
    [
        ("vgg16", "torchvision/resnet50-v2", r"belongs to the model 'resnet50', not to 'vgg16'.*load_model\("),
        ("alexnet", "imagenet", r"load_model\(\"alexnet_torchvision\", weights=\"imagenet\"\)"),
        ("lenet", "imagenet", r"has no weights 'imagenet'; it has prototorch/lenet-fashion-mnist; models with"),
        ("resnet50", "imagnet", r"neither a file nor the name of a weight set. Did you mean 'imagenet'\?"),
        ("resnet50", "torchvision/resnet50", r"Did you mean 'torchvision/resnet50-v1' or 'torchvision/resnet50-v2'\?"),
        ("resnet50", 3, r"expected weights: a path, an address"),
        ("resnet50", "", r"expected weights: a path, an address"),
    ],
)  # fmt: skip
def test_what_is_no_set_of_the_model_is_an_error_before_any_download(model: str, what, message: str, monkeypatch):
    monkeypatch.setenv("PROTOTORCH_MIRROR", "https://127.0.0.1:9/")  # where nothing answers
    with pytest.raises(UsageError, match=message):
        pt.load_model(model, weights=what)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('weight_set { name: "x" }', "weight_set needs 'model'"),
        ("Dense { units: 3 }", "Only weight_set { } blocks"),
        ('weight_set { name: "x"  model: "m"  address: "https://h/f"  format: "F"  system: "torch"  license: "l"  '
         'trained_by: "t" }', "the name of a set is SOURCE/NAME"),
        ('weight_set { name: "s/x"  model: "m"  address: "ftp://h/f"  format: "F"  system: "torch"  license: "l"  '
         'trained_by: "t" }', "begins with https:// or file:"),
        ('weight_set { name: "s/x"  model: "m"  address: "http://h/f"  format: "F"  system: "torch"  license: "l"  '
         'trained_by: "t" }', "or with http:// beside a digest"),
        ('weight_set { name: "s/x"  model: "m"  address: "https://h/f"  digest: "sha256:12"  format: "F"  '
         'system: "torch"  license: "l"  trained_by: "t" }', "expected sha256: with 64 or 8"),
        ('repeat 2 { weight_set { name: "s/x"  model: "m"  address: "https://h/f"  format: "F"  system: "torch"  '
         'license: "l"  trained_by: "t" } }', "names two weight sets"),
    ],
)  # fmt: skip
def test_mistakes_of_a_declaration_are_reported(text: str, message: str, tmp_path: Path):
    path = tmp_path / "m.proto"
    path.write_text(text)
    with pytest.raises(TextError, match=message.replace("{", r"\{").replace("}", r"\}")):
        read_sets(path)


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "..", ""])
def test_class_names_are_read_from_their_folder_only(name: str, tmp_path: Path):
    weights = WeightSet(
        name="s/x",
        model="m",
        address="https://h/f",
        format="F",
        system="torch",
        license="l",
        trained_by="t",
        classes=name,
    )
    with pytest.raises(UsageError, match="expected the name of a file"):
        DeclaredSet(weights, tmp_path / "m.proto").class_names()


def test_names_of_a_set_that_the_model_does_not_have_are_an_error(tmp_path: Path):
    with pytest.raises(UsageError, match=r"names must be one of torch, prototorch, torchvision/resnet18, not 'keras2'"):
        pt.load_model("resnet18").export(tmp_path / "x.pth", names="keras2")


# ---------------------------------------------------------------- pt.models


def test_every_shipped_text_is_a_function():
    assert dir(pt.models) == sorted(shipped_models())
    assert pt.models.lenet(classes=7).weights["logits/bias"].shape == (7,)
    with pytest.raises(AttributeError, match="Did you mean 'resnet18'"):
        _ = pt.models.resnet19
    with pytest.raises(UsageError, match="not both"):
        pt.models.resnet18(True, weights="imagenet")
    with pytest.raises(UsageError, match="must be True or False"):
        pt.models.resnet18("imagenet")


@pytest.mark.parametrize(("name", "model"), [("alexnet", "alexnet_torchvision"), ("resnet18", "resnet18"),
                                             ("googlenet", "googlenet_torchvision")])  # fmt: skip
def test_pretrained_gives_the_model_that_the_set_belongs_to(name: str, model: str, monkeypatch):
    calls = []
    monkeypatch.setattr(
        "prototorch.interop.shipped_models.load_model", lambda *args, **options: calls.append((args, options))
    )
    getattr(pt.models, name)(pretrained=True)
    getattr(pt.models, name)(weights="DEFAULT", classes=3)
    getattr(pt.models, name)()
    assert calls == [
        ((model,), {"weights": "imagenet"}), ((model,), {"weights": "DEFAULT", "classes": 3}),
        ((name,), {"weights": None}),
    ]  # fmt: skip


# ---------------------------------------------------------------- the command line


def test_predict_prints_the_best_classes_by_name(mirror: Path):
    from PIL import Image

    Image.fromarray(photo()[0].transpose(1, 2, 0)).save(mirror / "cat.png")
    command = [
        sys.executable,
        "-m",
        "prototorch",
        "predict",
        "mine.proto",
        "--weights",
        "published",
        "cat.png",
        "--allow-download",
    ]
    result = subprocess.run(
        command, cwd=mirror, capture_output=True, text=True, timeout=120, env={**os.environ, "PROTOTORCH_DEVICE": "cpu"}
    )
    assert result.returncode == 0, result.stderr
    line = result.stdout.splitlines()[-1]
    assert line.startswith("cat.png: kind ")
    assert line.count("kind ") == 5
    assert "untrained" not in result.stderr
    assert "we/mine" in result.stderr


def test_images_of_a_folder_keep_their_aspect_ratio_as_the_preprocessing_says(tmp_path: Path):
    """White in the middle third, black beside it: of a square crop nothing is black, of a stretched image much is."""
    from PIL import Image

    image = np.zeros((64, 192, 3), np.uint8)
    image[:, 60:132] = 255
    (tmp_path / "photos" / "a").mkdir(parents=True)
    for name in ("1.png", "2.png"):
        Image.fromarray(image).save(tmp_path / "photos" / "a" / name)
    x = pt.Input((3, 28, 28))
    layers = [pt.layers.Resizing(32, 32, keep_aspect_ratio=True, antialias=True), pt.layers.CenterCrop(28, 28)]
    model = pt.Model(x, pt.layers.GlobalAveragePooling2D()(x), preprocess=layers)
    np.testing.assert_allclose(model.predict(pt.Data(source=str(tmp_path / "photos"))), 255, atol=1)


def test_run_begins_with_the_weights_and_resume_does_not_load_them_again(mirror: Path):
    """--weights at the begin; --resume takes the snapshot, without the file."""
    text = """name: "tiny"
      input { name: "x"  shape: [1, 28, 28] }
      Flatten { }
      Dense { name: "logits"  units: 10 }
      compile { loss: sparse_categorical_crossentropy { from_logits: true }  optimizer: SGD { learning_rate: 0 } }
      fit { data { source: "fashion-mnist-mini"  limit: 64 }  epochs: 1 }
    """
    (mirror / "tiny.proto").write_text(text, encoding="utf-8")
    np.savez(mirror / "w.npz", **{"logits/kernel": np.full((784, 10), 0.5, np.float32),
                                  "logits/bias": np.arange(10, dtype=np.float32)})  # fmt: skip

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "prototorch", "run", "tiny.proto", "--quiet", *arguments]
        return subprocess.run(command, cwd=mirror, capture_output=True, text=True, timeout=120)

    done = run("--weights", "w.npz")
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(pt.load_model(mirror / "runs/tiny/model.h5").weights["logits/bias"], np.arange(10))
    (mirror / "weights" / "tiny.proto").write_text(
        'weight_set { name: "we/tiny"  model: "tiny"  address: "file:w.npz"  format: "NumPy"  system: "prototorch"  '
        'license: "ours"  trained_by: "us"  preprocess { Rescaling { scale: $(1 / 255) } } }'.replace(
            "file:", f"file:{mirror}/"
        )
    )
    done = run("--weights", "we/tiny", "--run-dir", "third", "--allow-download")
    assert done.returncode == 0, done.stderr
    resumed = run("--run-dir", "third", "--resume", "--epochs", "2")  # its preprocessing is in the snapshot
    assert resumed.returncode == 0, resumed.stderr
    assert len(pt.load_model(mirror / "third/model.h5").net.preprocess) == 1
    (mirror / "tiny.proto").write_text(text + '\nweights { source: "w.npz" }\n', encoding="utf-8")
    assert run("--run-dir", "second").returncode == 0
    np.testing.assert_array_equal(pt.load_model(mirror / "second/model.h5").weights["logits/bias"], np.arange(10))
    (mirror / "w.npz").unlink()
    resumed = run("--run-dir", "second", "--resume", "--epochs", "2")
    assert resumed.returncode == 0, resumed.stderr
    assert "leave out --weights" in run("--resume", "--weights", "w.npz").stderr
