"""A model text or a saved model cannot write outside its run folder, whatever paths, names and patterns it contains."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest

import prototorch as pt
from prototorch.cli import main
from prototorch.engine.storage.run_folder import RunFolder
from prototorch.errors import FileError, SnapshotError, TextError, UsageError
from prototorch.model.load import model_from_text

X = np.zeros((8, 3), np.float32)
Y = np.zeros((8, 2), np.float32)
CSV_LOGGER = 'CSVLogger {{ filename: "{}" }}'
CHECKPOINT = 'ModelCheckpoint {{ filepath: "{}" }}'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory of a user, with a file that must survive."""
    work = tmp_path / "home" / "work"
    work.mkdir(parents=True)
    (work.parent / "profile").write_text("precious")
    monkeypatch.chdir(work)
    yield work
    assert (work.parent / "profile").read_text() == "precious"
    assert {path.name for path in work.parent.iterdir()} == {"work", "profile"}


def text_with(callback: str, name: str = "net") -> str:
    return (
        f'name: "{name}"\ninput {{ name: "x"  shape: [3] }}\nDense {{ units: 2 }}\n'
        f"compile {{ loss: mse }}\nfit {{ epochs: 1  callbacks: [{callback}] }}\n"
    )


def train(text: str, **arguments):
    return model_from_text(text).fit(X, Y, verbose=0, **arguments)


OUTSIDE = ("../../profile", "../../../profile", "sub/../../../../profile", "{home}/profile")


@pytest.mark.parametrize("callback", [CSV_LOGGER, CHECKPOINT])
@pytest.mark.parametrize("path", OUTSIDE)
def test_declared_paths_stay_inside_the_run_folder(folder, callback, path):
    text = text_with(callback.format(path.replace("{home}", str(folder.parent))))
    with pytest.raises(UsageError, match=r"profile.* is outside of the run folder .*runs/net.*--run-dir"):
        train(text)


@pytest.mark.parametrize("callback", [CSV_LOGGER, CHECKPOINT])
def test_links_are_resolved_before_the_check(folder, callback):
    (folder / "runs" / "net").mkdir(parents=True)
    (folder / "runs" / "net" / "log").symlink_to(folder.parent / "profile")
    (folder / "runs" / "net" / "up").symlink_to(folder.parent)
    for path in ("log", "up/profile"):
        with pytest.raises(UsageError, match="outside of the run folder"):
            train(text_with(callback.format(path)))


def test_declared_paths_lie_below_the_run_folder(folder, tmp_path):
    train(text_with(CSV_LOGGER.format("logs/a.csv") + ", " + CHECKPOINT.format("{epoch:02d}.h5")))
    assert (folder / "runs/net/logs/a.csv").read_text().startswith("epoch,loss")
    assert (folder / "runs/net/01.h5").exists()
    train(text_with(CSV_LOGGER.format("a.csv")), run_dir=folder / "elsewhere")
    assert (folder / "elsewhere/a.csv").exists()
    inside = folder / "elsewhere" / "b.csv"
    train(text_with(CSV_LOGGER.format(inside)), run_dir=folder / "elsewhere")
    assert inside.exists()


def test_callbacks_given_in_python_write_where_they_like(folder):
    log = pt.callbacks.CSVLogger("a.csv")
    train(text_with(""), callbacks=[log])
    assert (folder / "a.csv").exists()
    model = model_from_text(text_with(CSV_LOGGER.format("../../profile")))
    with pytest.raises(UsageError, match="outside of the run folder"):  # passed on by Python, but declared in the text
        model.fit(X, Y, verbose=0, callbacks=list(model.fit_block.callbacks))


def test_a_restored_state_truncates_only_inside(folder):
    model = model_from_text(text_with(CSV_LOGGER.format("a.csv")))
    log = model.fit_block.callbacks[0]
    model.fit(X, Y, verbose=0)
    state = log.state()
    (folder / "runs/net/a.csv").unlink()
    (folder / "runs/net/a.csv").symlink_to(folder.parent / "profile")
    with pytest.raises(UsageError, match="outside of the run folder"):
        log.restore({**state, "size": 1})


@pytest.mark.parametrize("name", ["../up", "/absolute", "..", ".", "a/../../up", "/"])
def test_the_default_run_folder_is_below_runs(folder, name, capfd):
    text = folder / "net.proto"
    np.savez(folder / "data.npz", x=X, y=Y)
    text.write_text(text_with("", name).replace("epochs: 1", 'epochs: 1  data { source: "data.npz" }'))
    with pytest.raises(SystemExit) as exit:
        main(["run", str(text), "--quiet"])
    assert exit.value.code not in (0, None)
    assert "--run-dir" in capfd.readouterr().err
    assert not (folder / "runs").exists() or not any((folder / "runs").iterdir())
    with pytest.raises(UsageError, match="run_dir"):
        train(text_with(CSV_LOGGER.format("a.csv"), name))


def test_the_log_of_a_run_is_not_written_through_a_link(folder):
    with RunFolder(folder / "runs" / "net") as run:
        run.log_path.symlink_to(folder.parent / "profile")
        with pytest.raises(SnapshotError, match=r"log\.jsonl: cannot write it"):
            run.append_log({"epoch": 1})


@pytest.mark.parametrize("pattern", [
    "{epoch.__class__}.h5", "{epoch:3000000000d}.h5", "{epoch:.999f}.h5", "{epoch!r}.h5", "{epoch:{batch}}.h5",
    "{epoch[0]}.h5", "{0}.h5", "{}.h5", "{epoch:100}.h5", "{epoch", "}", "{epoch:q}.h5",
    "{epoch:65d}.h5", "{epoch:.33f}.h5",
])  # fmt: skip
@pytest.mark.parametrize("is_declared", [True, False])
def test_patterns_have_plain_names_and_bounded_formats(folder, pattern, is_declared):
    text = text_with(CHECKPOINT.format(pattern) if is_declared else "")
    callbacks = None if is_declared else [pt.callbacks.ModelCheckpoint(pattern)]
    with pytest.raises(UsageError, match=r"ModelCheckpoint\.filepath"):
        train(text, callbacks=callbacks)


def test_useful_patterns_work(folder):
    path = "{{a}}-{epoch:03d}-{loss:+.2e}-{loss:>8.3f}.h5"
    train(text_with(""), callbacks=[pt.callbacks.ModelCheckpoint(path)])
    assert next(p.name for p in folder.glob("*.h5")).startswith("{a}-001-+")


def test_cells_of_a_csv_file_are_not_formulas(folder):
    class Logs(pt.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logs.update({"=cmd()": 1.0, "-loss": -2.5, "+a": "=1+1", "@b": "\ttab", "plain": "text"})

    train(text_with(""), callbacks=[Logs(), pt.callbacks.CSVLogger("a.csv")])
    with open("a.csv", newline="") as file:
        header, row = csv.reader(file)
    values = dict(zip(header, row, strict=True))
    assert not [cell for cell in header if cell[0] in "=+-@\t\r"]
    assert values["'=cmd()"] == "1.0"
    assert values["'-loss"] == "-2.5"  # a number is not a formula
    assert (values["'+a"], values["'@b"], values["plain"]) == ("'=1+1", "'\ttab", "text")


BAD_NAMES = ["b;touch PWNED;#", "a'b", "a\u202eb", "a\x1b[31m", "a\nb", "a$b", "a`b", "a\\b", "a|b", "\u200b"]
GOOD_NAMES = ["conv1/7x7_s2", "a.b-c:0", "层", "слой1", "e\u0301", "क्षि", "block_1/unit_2/bottleneck.v2"]


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize(
    "where",
    [
        'name: "{}"\ninput {{ shape: [3] }}\nDense {{ units: 2 }}',
        'input {{ name: "{}"  shape: [3] }}\nDense {{ units: 2 }}',
        'input {{ shape: [3] }}\nDense {{ name: "{}"  units: 2 }}',
        'input {{ shape: [3] }}\nDense {{ units: 2  top: "{}" }}',
        'input {{ shape: [3] }}\nDense {{ units: 2  weights: "{}" }}',
    ],
)
def test_names_have_a_closed_alphabet(name, where):
    escaped = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\x1b", "\\x1b")
    with pytest.raises(TextError):
        model_from_text(where.format(escaped) + "\n")


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_in_python_have_the_same_alphabet(name):
    for make in (
        lambda: pt.layers.Dense(2, name=name),
        lambda: pt.Input((3,), name=name),
        lambda: pt.Sequential([pt.Input((3,)), pt.layers.Dense(2)], name=name),
        lambda: pt.Model(x := pt.Input((3,)), pt.layers.Dense(2)(x), name=name),
    ):
        with pytest.raises(UsageError, match=r"letters, digits(, spaces)? and / \. - : _"):
            make()


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_names_of_all_scripts_and_frameworks(folder, name):
    text = f'name: "net"\ninput {{ name: "{name}"  shape: [3] }}\nDense {{ name: "{name}_1"  units: 2 }}\n'
    assert model_from_text(text).layers[0].name == f"{name}_1"
    assert pt.layers.Dense(2, name=name).name == name


def test_a_text_whose_file_name_is_no_name(folder):
    path = Path("my net (copy).proto")
    path.write_text("input { shape: [3] }\nDense { units: 2 }\n")
    assert pt.load_model(path).name == "my_net__copy_"
    assert os.listdir(folder) == [str(path)]


def test_the_name_of_a_model_may_have_spaces(folder):
    text = 'name: "My first net"\ninput { name: "x"  shape: [3] }\nDense { units: 2 }\n'
    model = model_from_text(text)
    model.save("net.h5")
    assert pt.load_model("net.h5").name == "My first net"
    assert pt.Sequential([pt.Input((3,)), pt.layers.Dense(2)], name="My net").name == "My net"
    with pytest.raises(TextError, match="may contain only"):
        model_from_text(text.replace("Dense { units", 'Dense { name: "a b"  units'))


def test_a_runs_folder_that_is_a_link_is_not_followed(folder, tmp_path):
    (tmp_path / "other").mkdir()
    (folder / "runs").symlink_to(tmp_path / "other")
    with pytest.raises(UsageError, match=r"runs is a link to .*other, which is not followed.*--run-dir"):
        train(text_with(CSV_LOGGER.format("a.csv")))
    assert not list((tmp_path / "other").iterdir())
    train(text_with(CSV_LOGGER.format("a.csv")), run_dir=folder / "runs" / "net")
    assert (tmp_path / "other/net/a.csv").exists()


@pytest.mark.parametrize("append", ["false", "true"])
def test_a_hard_link_in_a_run_folder_is_not_written_through(folder, append):
    (folder / "runs/net").mkdir(parents=True)
    os.link(folder.parent / "profile", folder / "runs/net/a.csv")
    train(text_with(f'CSVLogger {{ filename: "a.csv"  append: {append} }}'))
    assert (folder.parent / "profile").read_text() == "precious"
    rows = (folder / "runs/net/a.csv").read_text()
    assert rows.startswith("precious0," if append == "true" else "epoch,loss")
    with RunFolder(folder / "runs" / "net") as run:
        os.link(folder.parent / "profile", run.log_path)
        run.append_log({"epoch": 1})
        assert run.log_path.read_text() == 'precious{"epoch": 1}\n'


def test_a_restored_state_truncates_no_hard_link(folder):
    model = model_from_text(text_with(CSV_LOGGER.format("a.csv")))
    model.fit(X, Y, verbose=0)
    log = model.fit_block.callbacks[0]
    (folder / "runs/net/a.csv").unlink()
    os.link(folder.parent / "profile", folder / "runs/net/a.csv")
    log.restore({**log.state(), "size": 3})
    assert (folder / "runs/net/a.csv").read_text() == "pre"


def test_the_lock_and_the_files_of_an_earlier_run_are_not_put_behind_a_link(folder, tmp_path):
    (folder / "run").mkdir()
    (folder / "run/.lock").symlink_to(tmp_path / "made")
    with pytest.raises(FileError, match="cannot be used as a run folder"), RunFolder(folder / "run"):
        raise AssertionError
    assert not (tmp_path / "made").exists()
    (folder / "run/.lock").unlink()
    (tmp_path / "other").mkdir()
    with RunFolder(folder / "run") as run:
        run.snapshots.save(1, {"w": X})
        (folder / "run/before").symlink_to(tmp_path / "other")
        with pytest.raises(SnapshotError, match="before: is a link"):
            run.start_run()
    assert not list((tmp_path / "other").iterdir())


def test_a_pipe_in_the_place_of_a_log_is_refused_and_not_waited_for(folder):
    with RunFolder(folder / "run") as run:
        os.mkfifo(run.log_path)
        with pytest.raises(SnapshotError, match="cannot read it"):
            run.trim_log(1)
