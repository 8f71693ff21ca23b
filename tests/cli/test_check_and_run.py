"""`check` finds what `run` refuses before its first step, with the same message at the same place of the text."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from prototorch.cli import main
from prototorch.model.fit_preconditions import MAX_READ_BYTES

IMAGE = 'input { name: "image"  shape: [3, 32, 32] }\n'
NET = 'Flatten { }\nDense { name: "logits"  units: 2 }\n'
LOSS = "compile { loss: sparse_categorical_crossentropy { from_logits: true }  metrics: [accuracy] }\n"
FIVE = 'fit { data { source: "five.npz" } }\n'
ROW = 'input { name: "x"  shape: [4] }\nDense { name: "y"  units: 3 }\n'
ROW_LOSS = "compile { loss: sparse_categorical_crossentropy { from_logits: true } }\n"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder of images of two classes, arrays with labels 0 to 4 and with values, tables, an empty file."""
    root = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    for name in ("cats", "dogs"):
        (root / "photos" / name).mkdir(parents=True)
        for i in range(4):
            Image.fromarray(rng.integers(0, 255, (32, 32, 3)).astype(np.uint8)).save(
                root / "photos" / name / f"{i}.png"
            )
    x = rng.integers(0, 5, (20, 4)).astype(np.float32)
    with_nan = x.copy()
    with_nan[3, 1] = np.nan
    np.savez(root / "five.npz", x=x, y=np.arange(20) % 5)
    np.savez(root / "values.npz", x=x, y=x[:, :2])
    np.savez(root / "nan.npz", x=with_nan, y=np.arange(20) % 5)
    lines = [f"{i},{i + 1},{2 * i},3,{i % 5}" for i in range(20)]
    (root / "five.csv").write_text("\n".join(["a,b,c,d,label", *lines]) + "\n")
    (root / "empty.csv").write_text("")
    return root


@pytest.fixture
def shell(data, tmp_path, monkeypatch, capfd):
    """Run a command in the folder of the data on a text: (exit code, standard output, standard error)."""
    monkeypatch.chdir(data)

    def run(command: str, text: str, *args: str) -> tuple[int, str, str]:
        Path("m.proto").write_text(text)
        capfd.readouterr()
        with pytest.raises(SystemExit) as done:
            main([command, "m.proto", *args])
        return int(done.value.code or 0), *capfd.readouterr()

    return run


FAULTS = [
    part.split("\n", 1)
    for part in (Path(__file__).parent / "faulty_trainings.txt").read_text(encoding="utf-8").split("\n== ")[1:]
]


def _without_warnings(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("warning: "))


@pytest.mark.parametrize("text", [row[1] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_check_and_run_give_the_same_message_at_the_same_place(shell, tmp_path, text):
    checked = shell("check", text)
    run = shell("run", text, "-q", "--run-dir", str(tmp_path / "run"))
    assert checked[0] == 3
    assert run[0] in (2, 3, 4)
    errors = _without_warnings(checked[2])
    assert re.match(r"m\.proto:\d+:\d+: ", errors)
    assert "^" in errors
    assert _without_warnings(run[2]) == errors


WITHOUT_DATA = {
    "crop": ("preprocess { CenterCrop { height: 28  width: 28 } }\n", "makes samples of shape [3, 28, 28], expected"),
    "means": ("preprocess { Normalization { mean: [1, 2]  variance: [1, 1]  axis: 1 } }\n", "mean has 2 values"),
    "weights": ("preprocess { Dense { units: 32 } }\n", "it has weights, which are neither trained nor saved here"),
    "augment": ("augment { RandomCrop { height: 28  width: 28 } }\n", "augment changes the shape of samples"),
}


@pytest.mark.parametrize("name", WITHOUT_DATA)
def test_preprocessing_is_checked_without_data(shell, name):
    section, message = WITHOUT_DATA[name]
    code, _, err = shell("check", IMAGE + section + NET + LOSS)
    assert code == 3
    assert err.startswith(f"m.proto:2:{section.index('{') + 3}: ")
    assert message in err


@pytest.mark.parametrize(
    "section",
    [
        "Resizing { height: 32  width: 32 }",
        "CenterCrop { height: 32  width: 32 }",
        "Reshape { target_shape: [3, 32, 32] }",
        "ColorChannels { channels: 3 }",
        "ZeroPadding2D { padding: 2 } CenterCrop { height: 32  width: 32 }",
    ],
)
def test_preprocessing_that_makes_the_input_from_other_shapes_is_right(shell, section):
    assert shell("check", IMAGE + f"preprocess {{ {section} }}\n" + NET + LOSS)[0] == 0


def test_mistakes_of_the_text_the_shapes_and_the_data_come_in_one_run(shell):
    fit = 'fit { data { source: "nothing.csv" } }\n'
    for net, where in (("Dense { unit: 4 }\n", "2:9"), ("Conv2D { filters: 4  kernel_size: 3 }\n", "2:1")):
        err = shell("check", "input { shape: [4] }\n" + net + "compile { loss: mse }\n" + fit)[2]
        assert re.findall(r"^m\.proto:(\S+): ", err, re.MULTILINE) == [where, "4:22"]


def test_preprocess_and_augment_are_checked_beside_wrong_data_shapes_and_losses(shell):
    image = 'input { name: "image"  shape: [3, 32, 32] }\n'
    preprocess = "preprocess { Normalization { mean: [1, 2]  variance: [1, 1]  axis: 1 } }\n"
    augment = "augment { RandomCrop { height: 28  width: 28 } }\n"
    data = 'fit { data { source: "nothing.csv" } }\n'
    for net in ("Flatten { }\nDense { units: 2 }\n", "Flatten { }\nLSTM { units: 2 }\n"):
        err = shell("check", image + preprocess + augment + net + "compile { loss: mse }\n" + data)[2]
        places = re.findall(r"^m\.proto:(\S+): ", err, re.MULTILINE)
        assert places == ["2:14", "3:11", *(["5:1"] if "LSTM" in net else []), "7:22"]
    unknown = "compile { loss: cross_entropy }\nfit { data { source: no-thing } }\n"
    err = shell("check", image + preprocess + "Flatten { }\nDense { units: 2 }\n" + unknown)[2]
    assert re.findall(r"^m\.proto:(\S+): ", err, re.MULTILINE) == ["2:14", "5:17", "6:22"]


def test_a_callback_that_writes_outside_of_the_run_folder_is_found(shell):
    callback = 'fit { data { source: "photos" }  callbacks: [CSVLogger { filename: "../a.csv" }] }\n'
    code, _, err = shell("check", IMAGE + NET + LOSS + callback)
    assert (code, err[:13]) == (3, "m.proto:5:46:")
    assert "outside of the run folder" in err


def test_a_net_alone_is_right_and_what_run_needs_is_noted(shell):
    code, out, _ = shell("check", ROW)
    assert code == 0
    assert "note: it names no loss" in out
    assert "note: it names no data" in out
    assert (
        "note"
        not in shell("check", ROW.replace("units: 3", "units: 5") + ROW_LOSS + 'fit { data { source: "five.npz" } }\n')[
            1
        ]
    )


def test_a_large_source_is_not_read(shell, data):
    with open(data / "large.npz", "wb") as file:
        file.truncate(MAX_READ_BYTES + 1)
    assert shell("check", ROW + ROW_LOSS + 'fit { data { source: "large.npz" } }\n')[0] == 0
    (data / "large.npz").unlink()
