"""Hostile and broken weight files: each is refused with one sentence, in 10 seconds and 1 GB, and nothing is run."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from functools import cache

import pytest

import prototorch as pt
from prototorch.errors import ModelFileError
from tests.security.hostile_weights import FORMATS, good_file, hostile_files

SECONDS = 10  # of processor time


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What happened with the files of a format, which one process reads."""

    @cache
    def read(format):
        folder = tmp_path_factory.mktemp("hostile")
        files = hostile_files(format)
        names = list(files)
        good_name, good_content = good_file(format)
        for number in (0, 1):
            (folder / f"good{number}.{good_name.partition('.')[2]}").write_bytes(good_content)
        for number, name in enumerate(names):
            file_name, content = files[name]
            (folder / f"file{number}.{file_name.partition('.')[2]}").write_bytes(content)
        command = [sys.executable, "-m", "tests.security.weight_reader_process", str(folder)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert run.returncode == 0, run.stderr[-2000:]
        report = json.loads(run.stdout)
        good, hostile = report["rows"][:2], report["rows"][2:]
        assert [row["kind"] for row in good] == ["read", "read"]
        return dict(zip(names, hostile, strict=True)), report["peak"]

    return read


@pytest.mark.parametrize("format", FORMATS)
def test_hostile_files_are_refused_with_one_sentence(outcomes, format):
    rows, peak = outcomes(format)
    assert len(rows) >= 30
    accepted = {name: row["kind"] + row["message"] for name, row in rows.items() if row["kind"] != "ModelFileError"}
    assert accepted == {}
    assert {name: row["events"] for name, row in rows.items() if row["events"]} == {}
    assert {name: row["seconds"] for name, row in rows.items() if row["seconds"] > SECONDS} == {}
    long = {name: row["message"] for name, row in rows.items() if "\n" in row["message"] or len(row["message"]) > 700}
    assert long == {}
    assert all(row["file"] in row["message"] for row in rows.values())
    assert peak < 1_300_000_000  # Python and NumPy themselves included


def mutate(content: bytes, generator: random.Random) -> bytes:
    """A file with some bytes changed, removed, inserted, repeated or cut off."""
    data = bytearray(content)
    for _ in range(generator.choice((1, 1, 2, 5, 20))):
        at = generator.randrange(len(data)) if data else 0
        kind = generator.randrange(6)
        if kind < 3:
            data[at : at + 1] = bytes([generator.choice((0, 1, 0x7F, 0x80, 0xFF, generator.randrange(256)))])
        elif kind == 3:
            del data[at : at + generator.randrange(1, 9)]
        elif kind == 4:
            data[at:at] = generator.randbytes(generator.randrange(1, 9))
        else:
            end = at + generator.randrange(1, 40)
            data[at:at] = data[at:end]
    return bytes(data[: generator.randrange(len(data) + 1)]) if generator.random() < 0.1 else bytes(data)


def fuzz(format: str, count: int, path, seed: int) -> None:
    """Read mutated files: they are read, or refused with a ModelFileError."""
    generator = random.Random(seed)
    name, content = good_file(format)
    path = path / name
    for number in range(count):
        path.write_bytes(mutate(content, generator))
        start = time.process_time()
        try:
            for array in pt.read_weights(path).values():
                assert array.nbytes < 1 << 24
        except ModelFileError:
            pass
        except Exception as error:
            raise AssertionError(f"{format}, seed {seed}, file {number}: {error!r}") from error
        assert time.process_time() - start < SECONDS


@pytest.mark.parametrize("format", FORMATS)
def test_mutated_files_are_read_or_refused(tmp_path, format):
    fuzz(format, 500, tmp_path, 1)


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_many_mutated_files_are_read_or_refused(tmp_path, format):
    fuzz(format, 25_000, tmp_path, 2)
