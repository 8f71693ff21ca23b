"""Each file of docs/extending.md is dropped into a copy of the package and used as the page does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from prototorch.engine.backends.cpu import native

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
FILES = re.findall(r"^`(prototorch/[\w/]+\.py)`:\n\n```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
BLOCKS = re.findall(r"^```(python|proto|sh)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

#: trains the models of the page that have a compile block, then runs its commands
SCRIPT = """
import sys
from pathlib import Path
import numpy as np
import prototorch as pt
from prototorch.cli.main import group

for path in sorted(Path().glob("page*.proto")):
    model = pt.load_model(path)
    x = np.random.default_rng(0).standard_normal(model.input_specs(32)["x"].shape).astype("float32")
    y = model.predict(x)
    assert np.isfinite(y).all()
    if model.compile_block is not None:
        losses = model.fit(x, y * 0, epochs=3, batch_size=16, verbose=0).history["loss"]
        assert losses[-1] < losses[0], path
for line in Path("commands.txt").read_text().splitlines():
    program, *args = line.split()
    assert program == "prototorch"
    group.main(args=args, standalone_mode=False)
"""


def test_there_is_a_file_of_every_kind():
    folders = {Path(path).parent.as_posix().removeprefix("prototorch/") for path, _ in FILES}
    assert folders >= {"layers", "ops", "optimizers", "losses", "graph/passes", "cli/commands"}
    assert any(folder.startswith("engine/backends/cpu/native/kernels/") for folder in folders)


def uses(kind: str) -> list[str]:
    files = {code for _, code in FILES}
    return [code for found, code in BLOCKS if found == kind and code not in files]


@pytest.mark.skipif(native.unavailable_reason() is not None, reason="no native kernels here")
def test_the_files_work_as_the_page_shows(tmp_path):
    for name in ("prototorch", "models", "grammars"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)  # a checkout: an installed package trusts its table of names
    for path, code in FILES:
        assert not (tmp_path / path).exists(), path
        (tmp_path / path).write_text(code, encoding="utf-8")
    for number, text in enumerate(uses("proto")):
        (tmp_path / f"page{number}.proto").write_text(text, encoding="utf-8")
    (tmp_path / "commands.txt").write_text("".join(uses("sh")), encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    program = "\n".join([*uses("python"), SCRIPT])
    done = subprocess.run([sys.executable, "-c", program], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "431,080 parameters\n"
