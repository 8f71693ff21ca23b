"""`prototorch weights`: published sets, downloaded files, and what is in a weight file."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
import torch

from prototorch.cli import main
from prototorch.interop.downloads.cache import path_of_address
from prototorch.interop.weight_sets.registry import list_sets
from prototorch.interop.weight_statistics import array_statistics

RNG = np.random.default_rng(2)
ADDRESS = "https://host.invalid/a/w.pth"


@pytest.fixture
def shell(tmp_path, monkeypatch, capfd):
    """Run a command in an empty folder, with an empty cache: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROTOTORCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PROTOTORCH_MIRROR", str(tmp_path / "mirror"))

    def run(*args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as done:
            main(["weights", *args])
        out, err = capfd.readouterr()
        return int(done.value.code or 0), out, err

    return run


def publish(tmp_path, address, content):
    """Put a file on the mirror."""
    path = tmp_path / "mirror" / path_of_address(address).relative_to(tmp_path / "home" / "weights")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def test_the_sets_are_listed(shell):
    code, out, _ = shell()
    assert code == 0
    assert out == shell("list")[1]
    assert all(any(line.startswith(one.weights.name) for line in out.splitlines()) for one in list_sets())
    rows = json.loads(shell("list", "--json")[1])["sets"]
    assert len(rows) == len(list_sets())
    assert not any(row["cached"] for row in rows if not row["included"])
    assert len(shell("list", "resnet50")[1].splitlines()) == len([row for row in rows if row["model"] == "resnet50"])
    assert "Did you mean 'resnet50'" in shell("list", "resnet5")[2]


def test_a_file_is_fetched_verified_and_removed(shell, tmp_path):
    content = RNG.bytes(1000)
    publish(tmp_path, ADDRESS, content)
    code, out, err = shell("fetch", ADDRESS)
    path = path_of_address(ADDRESS)
    assert (code, out.strip()) == (0, str(path))
    assert "no digest of it is published; recorded sha256" in err
    assert shell("path", "w.pth")[1].strip() == str(path)
    assert str(path) in shell("list")[1]
    digest = hashlib.sha256(content).hexdigest()
    assert f"{path}: sha256 {digest}, as first downloaded" in shell("verify")[1]
    path.write_bytes(content[::-1])
    code, _, err = shell("verify", "w.pth")
    assert code == 5
    assert "the file has changed" in err
    assert "1,000 bytes removed" in shell("remove", "w.pth")[1]
    assert not path.exists()
    publish(tmp_path, ADDRESS, b"another")
    code, _, err = shell("fetch", ADDRESS)
    assert code == 5
    assert digest in err
    assert shell("remove", ADDRESS, "--forget")[0] == 0
    assert shell("fetch", ADDRESS)[0] == 0
    assert shell("remove", "--all")[0] == 0
    assert "no files are downloaded yet into" in shell("verify")[2]


def test_a_set_is_fetched_with_its_published_digest(shell, tmp_path):
    one = next(one.weights for one in list_sets() if one.weights.name == "torchvision/resnet18")
    publish(tmp_path, one.address, b"not these")
    code, _, err = shell("fetch", one.name)
    assert code == 5
    assert "expected sha256 f37072fd as published" in err
    assert not path_of_address(one.address).exists()
    assert shell("path", one.name)[1].strip() == str(path_of_address(one.address))


@pytest.mark.parametrize("arguments", [["fetch"], ["remove"], ["fetch", "w.pth"], ["path", "torchvision/resnet81"]])
def test_what_is_no_set_is_a_usage_error(shell, arguments):
    assert shell(*arguments)[0] == 2


def test_a_file_outside_the_cache_is_never_removed(shell, tmp_path):
    (tmp_path / "w.pt").write_bytes(b"x")
    assert shell("remove", str(tmp_path / "w.pt"))[0] == 2
    assert (tmp_path / "w.pt").exists()


def test_the_arrays_of_a_file_are_shown(shell, tmp_path):
    weight = torch.randn(3, 5, generator=torch.Generator().manual_seed(1))
    broken = torch.tensor([1.0, float("nan"), float("inf"), 3.0])
    state = {"a.weight": weight, "tied.weight": weight, "broken": broken, "half": weight.half(), "epoch": 3}
    torch.save(state, tmp_path / "w.pt")
    code, out, _ = shell("show", "w.pt")
    assert code == 0
    assert "w.pt: PyTorch zip, of torch" in out
    line = next(line for line in out.splitlines() if line.startswith("a.weight"))
    digest = hashlib.sha256(weight.numpy().tobytes()).hexdigest()
    for part in ("3 x 5", "float32", f"{weight.mean():.4g}", digest[:8], "the elements of tied.weight"):
        assert part in line
    assert "1 NaN; 1 infinite" in out
    assert "4 arrays, 49 elements" in out
    assert "not a weight: epoch, a number" in out
    rows = {row["name"]: row for row in json.loads(shell("show", "w.pt", "--json")[1])["arrays"]}
    assert rows["a.weight"]["sha256"] == digest
    assert rows["broken"]["mean"] == 2
    assert rows["half"]["dtype"] == "float16"


def test_a_file_that_is_none_is_reported(shell, tmp_path):
    (tmp_path / "w.tflite").write_bytes(b"\x1c\0\0\0TFL3")
    assert shell("show", "w.tflite")[0] == 5
    assert shell("show", "missing.pt")[0] == 2


@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (300_000,), (600, 700), (3, 400, 500), (1, 300_000), (300_000, 1)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_statistics_in_blocks_are_those_of_the_whole(shape, order):
    array = np.asarray(RNG.normal(3, 2, shape).astype("f4"), order=order)
    found = array_statistics(array)
    assert found.elements == array.size
    assert found.sha256 == hashlib.sha256(array.tobytes()).hexdigest()
    if array.size:
        wide = array.astype("f8")
        expected = (wide.min(), wide.max(), wide.mean(), wide.std())
        np.testing.assert_allclose((found.minimum, found.maximum, found.mean, found.std), expected, rtol=1e-12)
    else:
        assert found.mean is None


def test_statistics_leave_out_what_is_not_finite():
    found = array_statistics(np.array([np.nan, np.inf, -np.inf]))
    assert (found.minimum, found.mean, found.nan, found.infinite) == (None, None, 1, 2)
    huge = array_statistics(np.full(10, 1e300))
    assert huge.mean == pytest.approx(1e300)
    assert array_statistics(np.array([1 + 2j, np.nan])).nan == 1
    assert array_statistics(np.array([True, False])).mean == 0.5
