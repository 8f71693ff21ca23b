"""Files of compiled functions that no `save` has written are refused when they are loaded, in one sentence."""

import contextlib
import copy
import json
import time
from pathlib import Path
from typing import Any

import pytest

import prototorch as pt
from prototorch.engine.storage import container
from prototorch.errors import ModelFileError, PrototorchError, ResourceError

CONTENT: dict[str, Any] = {
    "graph": {"outputs": [0], "updates": {}, "nodes": [],
              "values": [{"kind": "input", "name": "argument:0", "shape": [4], "dtype": "float32"}]},
    "arguments": [{"shape": [4], "dtype": "float32"}], "keys": [], "states": [], "result": {"tensor": 0},
}  # fmt: skip


def load(folder: Path, content: Any, batched: int = 0) -> Any:
    meta: dict[str, str | int] = {"format": 1, "kind": "compiled function", "name": "f", "batched": batched,
                                  "function": json.dumps(content)}  # fmt: skip
    container.write(folder / "f.h5", {}, meta)
    return pt.load_compiled(folder / "f.h5")


def changed(**parts: Any) -> dict[str, Any]:
    return {**copy.deepcopy(CONTENT), **parts}


@pytest.mark.parametrize("result", [
    {"tensor": 99}, {"tensor": -1}, {"tensor": True}, {"tensor": [0]}, {}, [], None, {"tensor": 0, "value": 1},
    {"list": {"tensor": 0}}, {"list": [{"tensor": 1}]}, {"dict": [["a"]]}, {"dict": [[[], {"tensor": 0}]]},
    {"value": [1]}, {"other": 1},
], ids=json.dumps)  # fmt: skip
def test_a_result_that_is_none(tmp_path: Path, result: Any) -> None:
    assert (load(tmp_path, CONTENT)(pt.ones(4)).numpy() == 1).all()
    with pytest.raises(ModelFileError, match="a part of its result is"):
        load(tmp_path, changed(result=result))


def test_inputs_and_lists_that_fit_nothing(tmp_path: Path) -> None:
    wrong = changed()
    wrong["graph"]["values"][0]["name"] = "zzz"
    with pytest.raises(ModelFileError, match="nothing gives its input 'zzz'"):
        load(tmp_path, wrong)
    for parts in ({"keys": [1]}, {"keys": "argument:0"}, {"arguments": {}}, {"states": 3}, {"arguments": []}):
        with pytest.raises(ModelFileError):
            load(tmp_path, changed(**parts))


@pytest.mark.parametrize("size", [2**39, 10**12, 2**31 - 1, 2**64])
def test_huge_sizes_are_refused_at_once(tmp_path: Path, size: int) -> None:
    content = changed(arguments=[{"shape": [size], "dtype": "float32"}])
    content["graph"]["values"][0]["shape"] = [size]
    start = time.perf_counter()
    with contextlib.suppress(ModelFileError, ResourceError):
        load(tmp_path, content)
    assert time.perf_counter() - start < 10
    batch = {"batch": [size, 0]}
    content = changed(arguments=[{"shape": [batch], "dtype": "float32"}])
    content["graph"]["values"][0]["shape"] = [batch]
    start = time.perf_counter()
    with contextlib.suppress(PrototorchError):
        load(tmp_path, content, batched=1)
    assert time.perf_counter() - start < 10
