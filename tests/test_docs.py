"""What the documentation shows works: its model texts are read, its Python runs, its commands and pages are there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from prototorch.cli.main import group
from prototorch.errors import TextError
from prototorch.model.diagnose import check_model
from prototorch.model.load import model_from_text
from prototorch.schema.python_imports import allow_python
from prototorch.text.reader import parse

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

LANGUAGE = (ROOT / "docs" / "language.md").read_text()
MODULES = re.compile(r"^`(\w+\.py)`[^\n]*:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)  # beside a text


def _blocks(kind: str) -> list[tuple[str, str]]:
    return [
        (f"{page.name}-{number}", code)
        for page in PAGES
        if page.name != "extending.md"  # its texts need its files: test_extending.py
        for number, (found, code) in enumerate(FENCE.findall(page.read_text()), 1)
        if found == kind
    ]


@pytest.mark.parametrize(("where", "text"), [pytest.param(*b, id=b[0]) for b in _blocks("proto")])
def test_every_model_text_is_read_and_whole_models_are_checked(where, text, tmp_path, monkeypatch):
    parse(text, where)
    monkeypatch.chdir(tmp_path)
    for name, code in MODULES.findall(LANGUAGE):
        (tmp_path / name).write_text(code)
    if "input {" in text:
        path = tmp_path / "model.proto"
        path.write_text(text)
        with allow_python("import:" in text):
            model = check_model(str(path))
            assert model.net.nodes
            assert model_from_text(model.to_text()).to_text() == model.to_text()


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "python.md"], ids=lambda p: p.name)
def test_every_python_block_runs(page, tmp_path, monkeypatch):
    """In the order of the page, with the names it leaves to the reader: x, y, x_test, y_test."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    pictures, labels = rng.integers(0, 256, (64, 1, 28, 28)).astype(np.uint8), np.arange(64) % 10
    given = {"x": pictures, "y": labels, "x_test": pictures[:16], "y_test": labels[:16]}
    space: dict[str, object] = {}
    for kind, code in FENCE.findall(page.read_text()):
        if kind == "python":
            space.update(given)
            exec(code, space)
    assert space["model"] is not None
    assert not page.name.startswith("README") or (tmp_path / "lenet.h5").exists()


def test_the_commands_and_codes_of_the_page_are_the_real_ones():
    page = (ROOT / "docs" / "command-line.md").read_text()
    named = set(re.findall(r"^\| `(\w+)", page, re.MULTILINE))
    assert named == set(group.list_commands(None))
    from prototorch import errors

    kinds = [getattr(errors, name) for name in vars(errors) if name.endswith("Error") and name != "PrototorchError"]
    codes = {kind.exit_code for kind in kinds if isinstance(kind, type)}
    assert codes <= {int(n) for n in re.findall(r"^\| (\d+)[, ]", page, re.MULTILINE)}


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "language.md"], ids=lambda p: p.name)
def test_the_message_that_is_shown_is_the_real_one(page, tmp_path, monkeypatch):
    (shown,) = [code for kind, code in FENCE.findall(page.read_text()) if "filtres" in code]
    line = shown.splitlines()[1].split("| ")[1]
    monkeypatch.chdir(tmp_path)
    Path("models").mkdir()
    Path("models/alexnet.proto").write_text("input { shape: [3, 9, 9] }" + "\n" * 11 + line + "\n")
    with pytest.raises(TextError) as wrong:
        check_model("models/alexnet.proto")
    assert str(wrong.value).strip() == shown.strip()


def test_links_between_the_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
