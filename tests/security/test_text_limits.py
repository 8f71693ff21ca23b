"""`check` of any text ends soon and in little memory: a child process with limits reads hostile texts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.security.hostile_texts import LARGE, SMALL

SECONDS, MEGABYTES = 5, 500
CHILD = """
import json, os, resource, sys, tempfile
from prototorch.model.diagnose import check_model, summary
from prototorch.errors import PrototorchError
import prototorch.layers

path, seconds = sys.argv[1], int(sys.argv[2])
for name, text in json.load(open(path)).items():
    read, write = os.pipe()
    process = os.fork()
    if not process:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        file = path + ".proto"
        open(file, "w").write(text)
        try:
            model = check_model(file)
            if len(model.net.nodes) < 100:
                str(summary(model)), str(summary(model, 2))
            result = "accepted"
        except PrototorchError as error:
            result = str(error)
        except MemoryError:
            result = "MemoryError"
        except BaseException as error:
            result = "crash: " + repr(error)[:500]
        os.write(write, result.encode()[:60000])
        os._exit(0)
    os.close(write)
    message = os.fdopen(read, errors="replace").read()
    _, status, usage = os.wait4(process, 0)
    print(json.dumps([name, status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, message]), flush=True)
"""


def check_texts(texts: dict[str, str], folder: Path, seconds: int) -> dict[str, tuple[int, float, float, str]]:
    """For each text the exit status of its check, the processor seconds, the megabytes, and the message."""
    path = folder / "texts.json"
    path.write_text(json.dumps(texts))
    command = [sys.executable, "-c", CHILD, str(path), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    return {name: tuple(rest) for name, *rest in map(json.loads, done.stdout.splitlines())}


def _assert_within_limits(texts: dict[str, str], folder: Path) -> None:
    """All texts together, so that Python starts once. The time is allowed twice: other tests run beside these."""
    results = check_texts(texts, folder, 2 * SECONDS)
    assert results.keys() == texts.keys()
    for name, (status, seconds, megabytes, message) in results.items():
        assert status == 0, f"{name}: status {status} after {seconds:.1f} s, {megabytes:.0f} MB"
        assert seconds < 2 * SECONDS, f"{name}: {seconds:.1f} s"
        assert megabytes < MEGABYTES, f"{name}: {megabytes:.0f} MB"
        assert message == "accepted" or (message and "crash" not in message and message != "MemoryError"), name
        assert len(message) < 50_000, name


def test_small_texts_end_soon(tmp_path):
    _assert_within_limits(SMALL, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_texts_of_a_megabyte_end_soon(name, tmp_path):
    _assert_within_limits({name: LARGE[name]}, tmp_path)


PARSE = """
import resource, sys, time
from benchmarks.language.speed import long_text
from prototorch.text.reader import parse
text = long_text(sys.argv[1])
begin = time.process_time()
count = len(parse(text).statements)
print(count, time.process_time() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("form", "limit"), [("braces", 6), ("calls", 12)])
def test_texts_of_ten_megabytes_are_parsed_soon(form, limit):
    command = [sys.executable, "-c", PARSE, form]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True)
    count, seconds, megabytes = map(float, done.stdout.split())
    assert count > 60_000
    assert seconds < 2 * limit, f"{seconds:.1f} s"  # twice: other tests run beside it
    assert megabytes < 300, f"{megabytes:.0f} MB"
