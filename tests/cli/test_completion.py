"""What a shell completes: asked as click's scripts ask, and in a bash that has loaded the script."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from prototorch.base.package_files import shipped_models


@pytest.fixture
def shell_environment(tmp_path, monkeypatch):
    """An empty working directory, and a command ``prototorch`` of this interpreter; the variables of a shell there."""
    script = tmp_path / "bin" / "prototorch"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m prototorch "$@"\n')
    script.chmod(0o755)
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return {**os.environ, "PATH": f"{script.parent}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture
def complete(shell_environment):
    """The completions of a line, whose last word is what has been typed of it: (kind, value)."""

    def run(*words: str) -> list[tuple[str, str]]:
        variables = {
            "COMP_WORDS": " ".join(("prototorch", *words)),
            "COMP_CWORD": str(len(words)),
            "_PROTOTORCH_COMPLETE": "bash_complete",
        }
        done = subprocess.run(["prototorch"], env={**shell_environment, **variables}, capture_output=True, text=True)
        assert done.stderr == ""
        return [tuple(line.split(",", 1)) for line in done.stdout.split()]

    return run


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (("w",), ["warmup", "weights"]),
        (("run", "--run"), ["--run-dir"]),
        (("run", "lenet", "--device", "c"), ["cpu", "cuda"]),
        (("run", "lene"), ["lenet"]),
        (("check", "lenet", "vg"), sorted(name for name in shipped_models() if name.startswith("vg"))),
        (("layers", "Conv2"), ["Conv2D", "Conv2DTranspose"]),
        (
            ("layers", "Sparse"),
            [
                "SparseCategoricalAccuracy",
                "SparseCategoricalCrossentropy",
                "SparseNormal",
                "SparsePlus",
                "SparseSigmoid",
                "SparseTopKCategoricalAccuracy",
            ],
        ),
        (("weights", "f"), ["fetch"]),
        (("--no-such",), []),
    ],
    ids=" ".join,
)
def test_names_are_completed(complete, words, values):
    assert complete(*words) == [("plain", value) for value in values]


def test_paths_are_completed_where_nothing_else_is_known(complete):
    assert complete("fmt", "my") == [("file", "my")]
    assert complete("run", "lenet", "--data", "da") == [("file", "da")]
    assert complete("run", "folder/my") == [("file", "folder/my")]


def test_paths_stand_beside_the_models_that_begin_so(complete, shell_environment):
    os.mkdir("lenses")
    for name in ("lena.png", "lenet2.proto", ".lenient"):
        open(name, "w").close()
    values = ["lenet", "lena.png", "lenet2.proto", "lenses/"]
    assert complete("run", "len") == [("plain", value) for value in values]
    assert ".lenient" not in dict(map(reversed, complete("run", "")))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell, shell_environment):
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("there is no bash, whose version the script depends on")
    variables = {**shell_environment, "_PROTOTORCH_COMPLETE": f"{shell}_source"}
    done = subprocess.run(["prototorch"], env=variables, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_PROTOTORCH_COMPLETE={shell}_complete" in done.stdout


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_help_stands_beside_the_names(shell, shell_environment):
    current = {"zsh": "1", "fish": "ru"}[shell]
    variables = {"COMP_WORDS": "prototorch ru", "COMP_CWORD": current, "_PROTOTORCH_COMPLETE": f"{shell}_complete"}
    done = subprocess.run(["prototorch"], env={**shell_environment, **variables}, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.startswith({"zsh": "plain\nrun\nTrain ", "fish": "plain,run\tTrain "}[shell])


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_what_its_script_loads(shell_environment):
    script = """
        eval "$(_PROTOTORCH_COMPLETE=bash_source prototorch)"
        complete -p prototorch
        COMP_WORDS=(prototorch run lenet --dev) COMP_CWORD=3
        _prototorch_completion prototorch
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    done = subprocess.run(["bash", "--norc", "-c", script], env=shell_environment, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["complete -o nosort -F _prototorch_completion prototorch", "--device"]


def test_completing_imports_no_command_that_is_not_named(shell_environment):
    variables = {"COMP_WORDS": "prototorch layers Den", "COMP_CWORD": "2", "_PROTOTORCH_COMPLETE": "bash_complete"}
    code = (
        "import sys\nfrom prototorch.cli.main import main\ntry:\n    main([])\nexcept SystemExit:\n    pass\n"
        "print(*(m for m in sys.modules if m.startswith('prototorch.')), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**shell_environment, **variables}, capture_output=True, text=True
    )
    assert done.stdout.split() == ["plain,Dense"]
    assert len(done.stderr.split()) <= 24
