"""Hostile and broken files of Caffe: each is refused with one sentence, quickly, in little memory; nothing is run."""

import random
import subprocess
import sys
import time
import tracemalloc

import numpy as np
import pytest

from prototorch.caffe.interop.solver_state import read_solver_state
from prototorch.engine.storage import foreign_hdf5
from prototorch.errors import ModelFileError
from prototorch.model.loading.read.read_file import read_weights
from tests.engine.storage.forked_reader import ForkedReader
from tests.security.hostile_caffe import ENDINGS, GOOD, STATE_ENDINGS, good, makers

SECONDS, PEAK = 10, 100 << 20
SMALL_BYTES = 100_000


def read_all(path):
    if ".solverstate" in path.name:
        for array in read_solver_state(path).history:
            array.sum()
    else:
        for array in read_weights(path).values():
            array.sum()


@pytest.mark.parametrize("ending", [*ENDINGS, *STATE_ENDINGS])
def test_hostile_files_are_refused(tmp_path, monkeypatch, ending):
    monkeypatch.setattr(foreign_hdf5, "_start_process", ForkedReader)
    accepted = []
    for name, make in makers(ending).items():
        path = tmp_path / f"file{ending}"
        make(path)
        is_small = path.stat().st_size < SMALL_BYTES  # tracing takes five times as long
        if is_small:
            tracemalloc.start()
        start = time.process_time()
        try:
            read_all(path)
        except ModelFileError as error:
            message = str(error)
            assert str(path) in message, name
            assert len(message) < 700 + len(str(path)), name
            assert "\n" not in message, name
        except Exception as error:
            raise AssertionError(f"{name}: {error!r}") from error
        else:
            accepted.append(name)
        finally:
            peak = tracemalloc.get_traced_memory()[1] if is_small else 0
            tracemalloc.stop()
        assert time.process_time() - start < SECONDS, name
        assert peak < PEAK, name
        assert [child.name for child in tmp_path.iterdir()] == [path.name], name
    assert accepted == []


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_good_file_is_read(tmp_path, ending):
    path = tmp_path / f"good{ending}"
    good(path)
    (array,) = read_weights(path).values()
    assert array.shape == (2, 2)


def test_random_changes_are_refused_or_read(tmp_path):
    rng = random.Random(3)
    path = tmp_path / "net.caffemodel"
    for _ in range(150):
        content = bytearray(GOOD)
        for _ in range(rng.randrange(1, 6)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(content[: rng.randrange(len(content))] if rng.random() < 0.3 else content)
        try:
            read_all(path)
        except ModelFileError:
            continue


def test_many_small_messages_stay_within_a_gigabyte(tmp_path):
    """The whole memory of a process that reads a file of messages of two bytes each."""
    path = tmp_path / "many.caffemodel"
    path.write_bytes(b"\x0a\x01n" + b"\xa2\x06\x02\x0a\x00" * 140_000)
    code = (
        "import sys, prototorch as pt\nfrom benchmarks.machine import peak_memory\n"
        "try: pt.read_weights(sys.argv[1])\nexcept pt.errors.ModelFileError as error: print(error)\n"
        "print(peak_memory())"
    )
    run = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    *_, peak = run.stdout.split()
    assert int(peak) < 1_000_000_000


def test_what_a_name_holds_does_not_reach_the_terminal(tmp_path):
    path = tmp_path / "net.caffemodel"
    path.write_bytes(GOOD.replace(b"conv", b"\x1b[2J"))
    with pytest.raises(ModelFileError) as caught:
        read_weights(path)
    assert "\x1b" not in str(caught.value)
    assert np.isfinite(len(str(caught.value)))
