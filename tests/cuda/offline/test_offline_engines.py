"""The engines that cuDNN chooses for the shipped models: those of the files, and none that leaves a GPU idle.

The comparison needs CuPy, cuDNN, its frontend, NVRTC and gcc: pytest -m cuda_offline.
"""

from __future__ import annotations

import difflib
import importlib.util
import shutil

import pytest

from prototorch.base.package_files import shipped_models
from tests.cuda.offline.engines import engine_files
from tests.cuda.offline.offline_cudnn import load_stub_driver

MISSING = [n for n in ("cupy", "cudnn") if importlib.util.find_spec(n) is None]
VERSIONS = ("9.19", "9.28")


@pytest.fixture(scope="module")
def _driver(tmp_path_factory):
    load_stub_driver(tmp_path_factory.mktemp("driver"))


@pytest.mark.cuda_offline
@pytest.mark.skipif(bool(MISSING) or shutil.which("gcc") is None, reason=f"missing: {', '.join(MISSING) or 'gcc'}")
@pytest.mark.usefixtures("_driver")
@pytest.mark.parametrize("name", sorted(shipped_models()))
def test_engines_are_those_of_the_files(name):
    version = engine_files.cudnn_version()
    if version not in VERSIONS:
        pytest.skip(f"engines are kept for cuDNN {', '.join(VERSIONS)}, and {version} is installed")
    committed = engine_files.path(name).read_text(encoding="utf-8").splitlines()
    text = engine_files.describe(name).splitlines()
    changes = list(difflib.unified_diff(committed, text, "committed", "chosen by cuDNN", n=0, lineterm=""))
    assert not changes, "\n".join([f"python -m tests.cuda.offline.engines {name} writes:", *changes])


def lines(version):
    files = sorted((engine_files.FOLDER / version).glob("*.txt"))
    return [
        (file.stem, engine_files.parse_line(line))
        for file in files
        for line in file.read_text(encoding="utf-8").splitlines()
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_model_has_its_file(version):
    assert {file.stem for file in (engine_files.FOLDER / version).glob("*.txt")} == set(shipped_models())


@pytest.mark.parametrize("version", VERSIONS)
def test_large_graphs_of_16_bit_values_run_on_tensor_cores(version):
    """Left out are small graphs and convolutions of fewer than eight channels in a group: images of one and three
    channels, where tensor cores would compute mostly with zeros, and depthwise ones, which are sweeps over memory."""
    large = [(name, line) for name, line in lines(version) if line.needs_tensor_cores]
    assert len(large) > 900
    assert [(name, line) for name, line in large if "WITHOUT TENSOR CORES" in line.engine] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_most_large_graphs_of_16_bit_values_run_in_clusters_or_split(version):
    """The others run on tensor cores by Ampere's instructions: mostly few channels, which cuDNN pads."""
    large = [line for _, line in lines(version) if line.needs_tensor_cores]
    filling = [line for line in large if "TILE_CGA" in line.engine or "SPLIT_K" in line.engine]
    assert len(filling) > 0.9 * len(large)


#: what cuDNN 9.28 sums in one block: version, model, the gradient's sizes, rows; they wait for a measurement
SUMMED_IN_ONE_BLOCK = {
    ("9.28", "gpt2_small", (768, 768, 1, 1), 8192),
    ("9.28", "vit_b16", (768, 768, 1, 1), 50432),
}


@pytest.mark.parametrize("version", VERSIONS)
def test_weight_gradients_of_many_rows_are_split(version):
    """No weight gradient of a dense layer over 2,048 rows or more is left to an engine that sums them in one block,
    unless its result has tiles for half of the GPU."""
    idle = []
    for name, line in lines(version):
        if line.kind != "conv_weight_grad" or not line.needs_tensor_cores or line.dims["dw"][2:] != (1, 1):
            continue
        rows = line.dims["x"][0] * line.dims["x"][2] * line.dims["x"][3]
        tiles = -(-line.dims["dw"][0] // 128) * -(-line.dims["dw"][1] // 128)
        if rows >= 2048 and tiles * 2 < 132 and "TILE_CGA" not in line.engine and "SPLIT_K" not in line.engine:
            idle.append((version, name, tuple(line.dims["dw"]), rows))
    assert set(idle) <= SUMMED_IN_ONE_BLOCK
