"""A wheel built from the tree works where the tree is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_a_wheel_works_elsewhere(tmp_path):
    """Built, unpacked into an empty folder, and used from another one: grammar, models and data are inside."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stat().st_size < 11 << 20  # 3 MB of images, 5 MB of weights
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    code = (
        "import prototorch, sys; from prototorch.cli import main; assert prototorch.__file__.startswith(sys.argv[1]); "
        "from prototorch.interop.weight_sets.registry import list_sets; "
        "assert len(list_sets()) > 10 and all(one.class_names() for one in list_sets()); "
        "assert [len(prototorch.load_model(one.weights.model, weights='fashion-mnist').net.class_names) "
        "for one in list_sets() if one.is_included] == [10, 10, 10]; "
        "main(['run', 'mlp', '--epochs', '1', '--set', 'fit.data.limit=200', '--quiet'])"
    )
    work = tmp_path / "work"
    work.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-c", code, str(site)]
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (work / "runs/mlp/model.h5").exists()
