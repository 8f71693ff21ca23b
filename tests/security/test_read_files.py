"""What a model names for reading: data of a text lie anywhere, those of a saved model inside the working directory;
lines of files that are no model texts are never printed."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
from PIL import Image

import prototorch as pt
from prototorch.cli import main
from prototorch.data import Data
from prototorch.errors import DataError, PrototorchError, TextError, UsageError
from prototorch.model.load import model_from_text

SECRET = "hunter2-token"
NET = 'input { name: "x"  shape: [2] }\nDense { name: "out"  units: 1 }\ncompile { loss: mse  optimizer: sgd }\n'


def text_with(source: str, more: str = "") -> str:
    return f'{NET}fit {{ epochs: 1  data {{ source: "{source}"  {more}}} }}\n'


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """The working directory, and the data of somebody else beside it."""
    for name in ("mine", "private"):
        (tmp_path / name).mkdir()
        rows = np.random.default_rng(0).random((8, 3))
        np.savetxt(tmp_path / name / "data.csv", rows, delimiter=",")
    monkeypatch.chdir(tmp_path / "mine")
    return tmp_path


def saved(source: str, more: str = "") -> str:
    """A saved model whose text names this source."""
    model = model_from_text(text_with(source, more))
    model.build()
    model.save("model.h5")
    return "model.h5"


def run(*args: str) -> int:
    with pytest.raises(SystemExit) as exit:
        main(list(args))
    return exit.value.code or 0


OUTSIDE = ("{private}/data.csv", "../private/data.csv", "link.csv", "up/data.csv", "~/data.csv")


@pytest.fixture
def outside(folders, monkeypatch):
    """Ways to name the private file."""
    private = folders / "private"
    (folders / "mine" / "link.csv").symlink_to(private / "data.csv")
    (folders / "mine" / "up").symlink_to(private)
    monkeypatch.setenv("HOME", str(private))
    return private


@pytest.mark.parametrize("source", OUTSIDE)
def test_saved_models_read_inside_the_working_directory_only(outside, source, capfd):
    file = saved(source.format(private=outside))
    refusal = rf"model\.h5 names data .*{outside}/data\.csv.*outside of .*mine.*--allow-read"
    for use in (lambda model: model.fit(verbose=0), lambda model: model.evaluate()):
        with pytest.raises(UsageError, match=refusal):
            use(pt.load_model(file))
    for command in ("run", "evaluate"):
        assert run(command, file) == 2
        assert "--allow-read" in capfd.readouterr().err


@pytest.mark.parametrize("source", OUTSIDE)
def test_what_the_user_allows_is_read(outside, source, capfd):
    file = saved(source.format(private=outside))
    for allowed in (outside, str(outside), [outside], outside / "data.csv", "up"):
        assert pt.load_model(file, allow_read=allowed).evaluate()["loss"] >= 0
    with pytest.raises(UsageError, match="outside of"):
        pt.load_model(file, allow_read="runs").evaluate()
    assert run("evaluate", file, "--allow-read", "runs", "--allow-read", str(outside)) == 0
    assert f"data: {outside}/data.csv" in capfd.readouterr().err


def test_data_given_by_the_user_are_always_read(outside, capfd):
    path = str(outside / "data.csv")
    file = saved(path)
    model = pt.load_model(file)
    model.fit(path, verbose=0)
    model.fit(Data(source=path), validation_data=Data(source=path), verbose=0)
    assert model.evaluate(path)["loss"] >= 0
    for options in (["--data", path], ["--set", f"fit.data.source={path}"]):
        assert run("evaluate", file, *options) == 0
    with pytest.raises(UsageError, match="outside of"):  # the file's own are refused beside them
        model.fit(verbose=0)


def test_data_inside_the_working_directory_need_no_option(folders, capfd):
    file = saved("data.csv")
    shutil.copytree(folders / "mine", folders / "mine" / "moved")
    assert run("evaluate", file) == 0
    assert capfd.readouterr().err.splitlines().count(f"data: {folders}/mine/data.csv") == 1
    assert run("run", "moved/model.h5", "--run-dir", "out") == 0
    assert run("evaluate", "out/model.h5") == 0


def test_texts_read_anywhere_and_say_where(outside, capfd):
    for source in ("../private/data.csv", "link.csv"):
        with open("net.proto", "w") as file:
            file.write(text_with(source))
        assert run("run", "net.proto", "--run-dir", f"out-{len(source)}") == 0
        assert capfd.readouterr().err.splitlines().count(f"data: {outside}/data.csv") == 1


@pytest.mark.parametrize("block", ["data", "validation", "folder"])
def test_every_field_that_names_files_is_limited(outside, block):
    inside, other = 'data { source: "data.csv" }', f'source: "{outside}/data.csv"'
    blocks = {
        "data": f"data {{ {other} }}",
        "validation": f"{inside}  validation {{ {other} }}",
        "folder": f'data {{ source: "mnist"  folder: "{outside}" }}',
    }
    model = model_from_text(f"{NET}fit {{ epochs: 1  {blocks[block]} }}")
    model.build()
    model.save("model.h5")
    with pytest.raises(UsageError, match=rf"names data .*{outside}"):
        pt.load_model("model.h5").fit(verbose=0)


def test_snapshots_of_a_text_resume_on_the_data_of_the_text(outside, capfd):
    with open("net.proto", "w") as file:
        file.write(text_with("link.csv"))
    assert run("run", "net.proto", "--run-dir", "out") == 0
    assert run("run", "net.proto", "--run-dir", "out", "--resume", "--epochs", "2") == 0
    snapshot = next((outside.parent / "mine" / "out").glob("snapshot*.h5"))
    capfd.readouterr()
    assert run("evaluate", str(snapshot)) == 2  # by itself it is a saved model from anywhere


@pytest.mark.parametrize(
    "entry", ["{private}/a.png", "../private/a.png", "sub/../../private/a.png", "up/a.png", "a.png"]
)
def test_list_files_stay_inside_their_folder(folders, entry):
    private, work = folders / "private", folders / "mine"
    image = Image.fromarray(np.zeros((4, 4), np.uint8))
    image.save(private / "a.png")
    image.save(work / "b.png")
    (work / "sub").mkdir()
    (work / "up").symlink_to(private)
    (work / "a.png").symlink_to(private / "a.png")
    (work / "list.txt").write_text(f"b.png 0\n{entry.format(private=private)} 1\n")
    with pytest.raises(DataError, match=r"outside of .*mine"):
        Data(source="list.txt", color="gray").open().read(np.arange(2))


def test_list_files_may_name_another_root(folders):
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(folders / "private" / "a.png")
    lines = f"a.png 0\n{folders}/private/a.png 1\n"
    (folders / "mine" / "list.txt").write_text(lines)
    dataset = Data(source="list.txt", folder=str(folders / "private"), color="gray").open()
    assert len(dataset.read(np.arange(2))["image"]) == 2


SECRETS = {
    "passwd": f"root:x:0:0:root,{SECRET},,:/root:/bin/sh\ndaemon:x:1:1:daemon,,,:/usr/sbin:/bin/{SECRET}\n",
    "shadow": f"root:$6${SECRET}:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\n",
    "env": f"API_KEY={SECRET}\nOTHER={SECRET}2\n",
    "ini": f"[default]\nkey = {SECRET}\n",
    "yaml": f"user: me\npassword: {SECRET}\n",
    "json": f'{{"token": "{SECRET}", "a": [1, 2]}}\n',
    "tokens": f"{SECRET},{SECRET},{SECRET}\na,b,{SECRET}\n",
    "spaces": f"env {SECRET}\n{SECRET} a b {SECRET}\n{SECRET}\n",
    "numbers": f"1,2,3\n4,{SECRET},6\n",
    "quotes": f'"{SECRET}","b\n1,2\n',
    "key": f"-----BEGIN KEY-----\n{SECRET}\n{SECRET}\n-----END KEY-----\n",
}
FIELDS = (
    "", 'label: "hunter"', 'label: "hunter2-toke"', 'features: ["API_KEY"]', "label: 1", 'classes: ["hunter2", "b"]',
    'label: 0  classes: ["hunter2-toke", "b"]', 'missing: mean  scale: standard', 'column { name: "hunter2-toke" }',
)  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("more", FIELDS)
def test_errors_of_data_quote_nothing_of_the_file(folders, name, more):
    path = folders / "private" / name
    path.write_text(SECRETS[name])
    message = ""
    try:
        model_from_text(text_with(str(path), more)).fit(verbose=0)
    except PrototorchError as error:
        message = str(error)
    assert SECRET not in message


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("ending", ["", ".txt", ".env", ".yaml"])
def test_errors_of_includes_quote_nothing_of_other_files(folders, name, ending):
    """Also of a file in the model's own folder, which may be included; a model text ends in .proto."""
    (folders / "mine" / f"{name}{ending}").write_text(SECRETS[name])
    (folders / "mine" / "net.proto").write_text(f'include "{name}{ending}"\n{NET}')
    with pytest.raises(TextError) as caught:
        pt.load_model("net.proto")
    assert SECRET not in str(caught.value)
    assert SECRET not in str([m.message for m in caught.value.mistakes])
    assert f"{name}{ending}" in str(caught.value)


def test_includes_that_are_model_texts_show_their_lines(folders):
    (folders / "mine" / "part.proto").write_text("param a 3\n")
    (folders / "mine" / "net.proto").write_text(f'include "part.proto"\n{NET}')
    with pytest.raises(TextError, match=r"part\.proto:1:7: .*\n   1 \| param a 3"):
        pt.load_model("net.proto")


@pytest.mark.parametrize("path", ["/etc/passwd", "../private/b.proto", "link.proto", "up/b.proto", "link.csv"])
def test_includes_stay_below_the_model(outside, path):
    (outside / "b.proto").write_text("param a: 3")
    (outside.parent / "mine" / "link.proto").symlink_to(outside / "b.proto")
    with open("net.proto", "w") as file:
        file.write(f'include "{path}"\n{NET}')
    with pytest.raises(TextError, match=r"must be|must end|cannot be included"):
        pt.load_model("net.proto")
    assert os.path.exists(outside)


def test_a_saved_text_includes_nothing(folders):
    from prototorch.engine.storage import checkpoint

    model = model_from_text(NET)
    model.build()
    checkpoint.save("model.h5", f'include "part.proto"\n{NET}', model.variables, None)
    with pytest.raises(TextError, match="cannot include"):
        pt.load_model("model.h5")


@pytest.mark.parametrize("link", ["cat/b.png", "cat", "."])
def test_links_inside_the_data_of_a_saved_model_lead_nowhere_else(folders, link):
    work, private = folders / "mine", folders / "private"
    for folder in (work / "photos", private / "photos"):
        for name in ("cat", "dog"):
            (folder / name).mkdir(parents=True)
            Image.fromarray(np.zeros((4, 4), np.uint8)).save(folder / name / "b.png")
    target = work / "photos" / link
    if target.is_file():
        target.unlink()
    else:
        shutil.rmtree(target)
    target.symlink_to(private / "photos" / link)
    net = 'input { name: "x"  shape: [1, 4, 4] }\nFlatten {}\nDense { units: 2 }\n'
    net += "compile { loss: sparse_categorical_crossentropy"
    model = model_from_text(net + ' { from_logits: true } }\nfit { epochs: 1  data { source: "photos" } }')
    model.build()
    model.save("model.h5")
    loaded = pt.load_model("model.h5")
    with pytest.raises((UsageError, DataError), match=r"outside of"):
        loaded.evaluate()
    assert loaded.evaluate("photos")["loss"] >= 0  # given in Python
