"""``import: "my_layers"`` in a model text: nothing runs unless the reader allows it, by whatever way a text comes."""

import importlib
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import prototorch as pt
from prototorch.cli.main import group
from prototorch.errors import TextError, UsageError
from prototorch.interop.conversion import convert
from prototorch.model import diagnose
from prototorch.model.load import run_imports
from prototorch.schema.python_imports import allow_python

MODULE = '''
import pathlib
import prototorch as pt
from prototorch import ops
from prototorch.schema import field

pathlib.Path(__file__).with_name("RAN").touch()


class Leaning{n}(pt.layers.Layer):
    """A factor where the input is negative."""

    factor: float = field(default=0.5, min=0, doc="The factor.")

    def call(self, ctx, x):
        return ops.where(x > 0, x, x * self.factor)
'''
TEXT = """
import: "{module}"
input {{ shape: [4] }}
Dense {{ units: 8 }}
Leaning{n} {{ factor: 0.25 }}
Dense {{ units: 3 }}
compile {{ loss: sparse_categorical_crossentropy {{ from_logits: true }} }}
"""
_numbers = iter(range(10_000))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A text beside a module of a name of its own."""
    return write_text(tmp_path)


def write_text(folder: Path) -> Path:
    n = next(_numbers)
    (folder / f"beside_{n}.py").write_text(MODULE.replace("{n}", str(n)))
    path = folder / "net.proto"
    path.write_text(TEXT.format(module=f"beside_{n}", n=n))
    return path


def has_run(folder: Path) -> bool:
    return (folder / "RAN").exists()


def saved(path: Path) -> Path:
    """The model of a text, saved, as if its module had never run."""
    pt.load_model(path, allow_python=True).save(path.with_name("net.h5"))
    (path.parent / "RAN").unlink()
    for name in [name for name in sys.modules if name.startswith("beside_")]:
        del sys.modules[name]
    return path.with_name("net.h5")


READERS = {
    "load_model": pt.load_model,
    "without its compile block": lambda path: pt.load_model(path, compile=False),
    "with another seed": lambda path: pt.load_model(path, overrides=["compile.seed=3"]),
    "check_model": lambda path: diagnose.check_model(str(path)),
    "convert": lambda path: convert(str(path), str(path.with_name("out.onnx"))),
    "run_imports": lambda path: run_imports(str(path)),
    "its weights for another": lambda path: convert(str(path.with_name("w.npz")), str(path.with_name("o.h5")),
                                                    model=str(path)),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["text", "saved"])
@pytest.mark.parametrize("reader", READERS)
def test_nothing_runs_unless_allowed(text: Path, reader: str, kind: str) -> None:
    path = text if kind == "text" else saved(text)
    np.savez(path.with_name("w.npz"), a=np.zeros(2))
    with pytest.raises(TextError, match=r"would run .*beside_.*--allow-python.*allow_python=True"):
        READERS[reader](path)
    assert not has_run(text.parent)


COMMANDS = ["check", "summary", "show --expanded", "show --plan", "run", "evaluate", "predict", "time", "warmup",
            "convert", "layers --file"]  # fmt: skip


@pytest.mark.parametrize("kind", ["text", "saved"])
@pytest.mark.parametrize("line", COMMANDS)
def test_no_command_runs_it_unless_allowed(text: Path, line: str, kind: str) -> None:
    path = text if kind == "text" else saved(text)
    words = [*line.split(), str(path)]
    words += {"predict": ["x.npy"], "convert": ["-o", str(path.with_name("out.onnx"))]}.get(line, [])
    result = CliRunner().invoke(group, words)
    assert "--allow-python" in f"{result.exception} {result.output}"
    assert not has_run(text.parent)


@pytest.mark.parametrize("line", ["check", "summary", "show --expanded", "warmup --batch 1", "layers --file"])
def test_commands_run_it_where_it_is_allowed(text: Path, line: str) -> None:
    result = CliRunner().invoke(group, [*line.split(), str(text), "--allow-python"])
    assert result.exit_code == 0, result.output
    assert has_run(text.parent)


def test_the_manual_page_of_a_layer_of_a_module(text: Path) -> None:
    name = text.read_text().split("{ factor")[0].split()[-1]
    result = CliRunner().invoke(group, ["layers", name, "--file", str(text), "--allow-python"])
    assert "A factor where the input is negative." in result.output
    assert "factor" in result.output
    assert "default 0.5" in result.output


def test_texts_are_formatted_and_shown_without_it(text: Path) -> None:
    for words in (["fmt", str(text)], ["show", str(text)]):
        assert CliRunner().invoke(group, words).exit_code == 0
    assert not has_run(text.parent)


def test_it_trains_and_the_saved_file_asks_again(text: Path) -> None:
    model = pt.load_model(text, allow_python=True)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(64, 4)).astype(np.float32), rng.integers(0, 3, 64)
    before = model.evaluate(x, y, verbose=0)
    model.fit(x, y, epochs=3, verbose=0)
    assert model.evaluate(x, y, verbose=0) != before
    model.save(text.with_name("net.h5"))
    assert model.to_text().splitlines()[1].startswith('import: "beside_')
    with pytest.raises(TextError, match="allow_python"):
        pt.load_model(text.with_name("net.h5"))
    again = pt.load_model(text.with_name("net.h5"), allow_python=True)
    np.testing.assert_array_equal(again.predict(x, verbose=0), model.predict(x, verbose=0))
    part = pt.Model(again.input, again.layers[1].output)
    assert 'import: "beside_' in part.to_text()


def test_included_files_and_blocks_cannot_import(text: Path) -> None:
    module = text.read_text().split('"')[1]
    (text.parent / "part.proto").write_text(f'import: "{module}"\n')
    text.write_text('include "part.proto"\ninput { shape: [4] }\nDense { units: 2 }\n')
    with pytest.raises(TextError, match="only param, let, assert, block and include"):
        pt.load_model(text, allow_python=True)
    text.write_text(f'block b() {{ import: "{module}" }}\nb {{ }}\ninput {{ shape: [4] }}\nDense {{ units: 2 }}\n')
    with pytest.raises(TextError):
        pt.load_model(text)
    assert not has_run(text.parent)


def test_a_setting_cannot_allow_it(text: Path) -> None:
    for setting in ("allow_python=true", "compile.allow_python=true", "import=x"):
        with pytest.raises((TextError, UsageError)):
            pt.load_model(text, overrides=[setting])
    assert not has_run(text.parent)


def test_what_a_module_reads_is_not_allowed_in_turn(tmp_path: Path) -> None:
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    inner.mkdir()
    outer.mkdir()
    path, other = write_text(outer), write_text(inner)
    module = next(outer.glob("beside_*.py"))
    module.write_text(f"{module.read_text()}\npt.load_model({str(other)!r})\n")
    with pytest.raises(TextError, match=r"(?s)would run .*inner.*net\.proto|would run .*inner"):
        pt.load_model(path, allow_python=True)
    assert not has_run(inner)


def test_other_threads_are_not_allowed(text: Path) -> None:
    errors: list[BaseException] = []

    def read() -> None:
        try:
            pt.load_model(text)
        except TextError as error:
            errors.append(error)

    with allow_python():
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
    assert len(errors) == 1
    assert not has_run(text.parent)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('import: "../x"', "is not the name of a Python module"),
        ('import: "x.py"', "Write 'x', without .py"),
        ('import: "a/b"', "is not the name of a Python module"),
        ('import: ""', "is not the name of a Python module"),
        ('import: "a..b"', "is not the name of a Python module"),
        ('import: "' + "a" * 300 + '"', "is not the name of a Python module"),
        ('import: "\\033[2J"', r"'\\\\x1b\[2J' is not the name"),
        ("import: my_layers", "in quotes"),
        ("import: 3", "in quotes"),
        ("import { }", "in quotes"),
        ('import: "no_such_module_at_all"', "there is none; it is looked for in .*sys.path"),
        ('import: "os"', "defines no subclass of Layer, Module or Function"),
        ('import: "prototorch.layers.dense"', "defines no subclass"),
    ],
)
def test_mistakes_of_the_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "net.proto"
    path.write_text(f"{line}\ninput {{ shape: [4] }}\nDense {{ units: 2 }}\n")
    with pytest.raises(TextError, match=message) as caught:
        pt.load_model(path, allow_python=True)
    assert str(caught.value).startswith(f"{path}:1:")
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1 / 0", r"ZeroDivisionError: division by zero \(.*failing_\d+\.py, line 1\)"),
        ("import sys\nsys.exit(3)", r"SystemExit: 3 \(.*line 2\)"),
        ("def f(:", r"SyntaxError: .*failing_\d+\.py, line 1\)"),
        ("import no_such_module_at_all", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
    ],
)
def test_code_that_fails_is_a_mistake_of_the_text(tmp_path: Path, code: str, message: str) -> None:
    module = f"failing_{next(_numbers)}"
    (tmp_path / f"{module}.py").write_text(code + "\n")
    (tmp_path / "net.proto").write_text(f'import: "{module}"\ninput {{ shape: [4] }}\nDense {{ units: 2 }}\n')
    with pytest.raises(TextError, match=message):
        pt.load_model(tmp_path / "net.proto", allow_python=True)
    assert str(tmp_path) not in sys.path


def test_a_module_of_that_name_from_elsewhere_is_not_taken_instead(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    path, other = write_text(first), write_text(second)
    module = next(first.glob("beside_*.py"))
    next(second.glob("beside_*.py")).rename(second / module.name)
    other.write_text(path.read_text())
    pt.load_model(path, allow_python=True)
    with pytest.raises(TextError, match=r"imported another one of that name, .*/a/"):
        pt.load_model(other, allow_python=True)
    assert not has_run(second)


def test_packages_and_the_path_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, elsewhere = tmp_path / "lib", tmp_path / "texts"
    (package / "pieces").mkdir(parents=True)
    elsewhere.mkdir()
    n = next(_numbers)
    (package / "pieces" / "__init__.py").touch()
    (package / "pieces" / "layers.py").write_text(MODULE.replace("{n}", str(n)))
    (elsewhere / "net.proto").write_text(TEXT.format(module="pieces.layers", n=n))
    with pytest.raises(TextError, match="there is none"):
        pt.load_model(elsewhere / "net.proto", allow_python=True)
    monkeypatch.syspath_prepend(package)
    importlib.invalidate_caches()
    assert len(pt.load_model(elsewhere / "net.proto", allow_python=True).layers) == 3


def test_the_argument_must_be_true_or_false() -> None:
    with pytest.raises(UsageError, match="allow_python must be True or False"):
        pt.load_model("lenet", allow_python="yes")


@pytest.mark.slow
def test_a_new_process_trains_evaluates_and_predicts(text: Path) -> None:
    data = text.parent / "data.npz"
    rng = np.random.default_rng(0)
    np.savez(data, x=rng.normal(size=(32, 4)).astype(np.float32), y=rng.integers(0, 3, 32))
    command = [sys.executable, "-m", "prototorch"]
    for words in (
        ["run", str(text), "--data", str(data), "--epochs", "1", "--run-dir", str(text.parent / "run"), "-q"],
        ["evaluate", str(text.parent / "run" / "model.h5"), "--data", str(data)],
    ):
        refused = subprocess.run([*command, *words], cwd=text.parent, capture_output=True, text=True)
        assert refused.returncode == TextError.exit_code
        assert "--allow-python" in refused.stderr
        done = subprocess.run([*command, *words, "--allow-python"], cwd=text.parent, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
