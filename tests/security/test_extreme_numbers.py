"""Extreme numbers in any field of a text: `check` ends soon, in little memory, and refuses what is no number."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from prototorch.errors import PrototorchError
from prototorch.model.diagnose import check_model
from prototorch.schema import Float
from tests.security.extreme_numbers import number_texts

SECONDS, MEGABYTES = 2, 300
CHILD = """
import json, resource, sys, time
from prototorch.model.diagnose import check_model
from prototorch.errors import PrototorchError

resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
texts, file = json.load(open(sys.argv[1])), sys.argv[1] + ".proto"
for name, text in texts.items():
    open(file, "w").write(text)
    begin, before, result = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, "accepted"
    try:
        check_model(file)
    except PrototorchError as error:
        result = "error"
    except BaseException as error:
        result = repr(error)[:300]
    megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(json.dumps([name, time.process_time() - begin, megabytes, result]), flush=True)
"""


def test_integers_decide_no_allocation(tmp_path):
    texts = {f"{field} = {n}": text for n in (10**9, 2**62) for field, text in number_texts(str(n)).items()}
    assert len(texts) > 200
    path = tmp_path / "texts.json"
    path.write_text(json.dumps(texts))
    command = [sys.executable, "-W", "ignore", "-c", CHILD, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=120)
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == len(texts)
    wrong = [r for r in results if r[1] > SECONDS or r[2] > MEGABYTES or r[3] not in ("accepted", "error")]
    assert not wrong, wrong


@pytest.mark.parametrize("field", NAN_TEXTS := number_texts("nan", (Float,)))
def test_nan_is_refused(field, tmp_path):
    path = tmp_path / "model.proto"
    path.write_text(NAN_TEXTS[field])
    with pytest.raises(PrototorchError, match="nan"):
        check_model(str(path))
