"""The distribution is called prototorch-dl: what is said to install, and what tells a stranger's package from ours."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import prototorch
from prototorch.cli import installation, main
from prototorch.cuda.packages import REQUIREMENTS

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_names_and_versions_agree():
    assert PROJECT["name"] == prototorch.__distribution__ == installation.DISTRIBUTION == "prototorch-dl"
    assert PROJECT["version"] == prototorch.__version__
    assert list(PROJECT["scripts"]) == ["prototorch"]


@pytest.mark.parametrize("major", REQUIREMENTS)
def test_what_is_said_to_install_is_what_the_extra_installs(major):
    assert list(REQUIREMENTS[major]) == PROJECT["optional-dependencies"][f"cuda{major}"]


def test_nobody_is_sent_to_the_package_of_others():
    """prototorch on the public index is another project: no text says to install it, by itself or with an extra."""
    folders = ("prototorch", "docs", "examples", "benchmarks", "models", ".ci")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    paths += [*ROOT.glob("*.md"), ROOT / "pyproject.toml"]
    wrong = re.compile(
        rb"(?i)\binstall\b[^\n`;()&#]*[\s'\"]prototorch(?!-dl|[\w.-]*/)(\[|['\"\s`]|$)|\bprototorch\[\w", re.MULTILINE
    )
    texts = [p for p in paths if p.suffix in (".py", ".md", ".toml", ".cu", ".proto", "", ".sh")]
    assert len(texts) > 400
    assert [f"{p}: {found[0]!r}" for p in texts if (found := wrong.search(p.read_bytes()))] == []


def test_the_check_finds_what_it_looks_for():
    for name in ("prototorch-0.5.0.dist-info", "Prototorch-1.0rc1.dist-info", "prototorch-0.7.6-py3.11.egg-info"):
        assert installation._METADATA.fullmatch(name)
    for name in (
        "prototorch_dl-0.1.0.dist-info",
        "prototorch",
        "prototorch_models-1.0.dist-info",
        "torch-2.0.dist-info",
    ):
        assert not installation._METADATA.fullmatch(name)


def test_another_distribution_of_this_name_is_reported(tmp_path, monkeypatch, capfd):
    assert installation.installation_warning() == ""
    (tmp_path / "prototorch-0.7.6.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path), str(tmp_path / "missing")])
    with pytest.raises(SystemExit) as done:
        main(["devices"])
    out, err = capfd.readouterr()
    assert not done.value.code
    assert (
        f"warning: another distribution called prototorch is installed ({tmp_path}/prototorch-0.7.6.dist-info)" in err
    )
    assert "pip uninstall prototorch" in err
    assert f"prototorch-dl {prototorch.__version__} in {ROOT}" in out


@pytest.mark.parametrize("content", ["__version__ = '0.7.6'\nimport os\n", "", None])
def test_a_package_that_was_overwritten_says_so(tmp_path, content):
    """A stranger's __init__.py over ours, or none after the stranger was uninstalled."""
    package = tmp_path / "prototorch"
    package.mkdir()
    for part in (ROOT / "prototorch").iterdir():
        if part.name not in ("__init__.py", "__pycache__"):
            (package / part.name).symlink_to(part)
    if content is not None:
        (package / "__init__.py").write_text(content)
    only_here = "sys.path[:] = [p for p in sys.path if p == sys.argv[1] or not os.path.exists(p + '/prototorch/cli')]"
    code = f"import os, sys; {only_here}; from prototorch.cli import main; main(['devices'])"
    command = [sys.executable, "-c", code, str(tmp_path)]
    environment = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 5, done.stderr
    assert done.stderr.startswith("prototorch: the package at ")
    assert "is not this project's (prototorch-dl)" in done.stderr
    assert "Traceback" not in done.stderr
