"""ONNX's own node tests, run by the importer: each case as a net, its outputs compared with those of the case.

The models of the cases have one node, and inputs for all that the node reads, weights too. A net has a batch dimension.
So a case is tried in several ways, and passes where one of them gives its outputs:

* which of its inputs the net reads: all, or one with the others as constants (`fixed_inputs`);
* the first or the second dimension as the batch, or the whole arrays as one sample of a batch of one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prototorch.errors import PrototorchError
from prototorch.interop.onnx.importer.model import import_graph
from prototorch.interop.onnx.model_file import open_onnx
from tests.interop.onnx.onnx_models import as_onnx, run_imported

RTOL, ATOL = 1e-4, 1e-5  # of float32 results


@cache
def node_cases() -> dict[str, Any]:
    """All cases by name."""
    node = pytest.importorskip("onnx.backend.test.case.node")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in node.collect_testcases(None)}


@dataclass(frozen=True)
class Outcome:
    """How a case went. way: "batch" or "sample" and the inputs that the net reads, "" where none gave the outputs;
    reason: why not."""

    way: str
    reason: str = ""


def run_case(case: Any, folder: Path) -> Outcome:
    """Try a case in all ways."""
    path = folder / "model.onnx"
    path.write_bytes(case.model.SerializeToString())
    reasons: list[str] = []
    names = [i.name for i in case.model.graph.input]
    try:
        file = open_onnx(path)
    except PrototorchError as error:
        return Outcome("", _short(str(error), str(path)))
    for inputs, expected in case.data_sets:
        inputs, expected = ([_as_array(a) for a in arrays] for arrays in (inputs, expected))
        if not all(isinstance(a, np.ndarray | np.generic) for a in (*inputs, *expected)):
            return Outcome("", "sequences or optional values, which no layer has")
        tolerance = max((_TOLERANCES.get(np.asarray(a).dtype.name, ATOL) for a in expected), default=ATOL)
        inputs, expected = ([_widened(a) for a in arrays] for arrays in (inputs, expected))
        if not all(a.dtype.kind in "fiub" for a in (*inputs, *expected)):
            return Outcome("", "texts, complex numbers or numbers of 4 bits, which no layer has")
        for batch_axis, read in _ways(inputs):
            fixed = {n: a for i, (n, a) in enumerate(zip(names, inputs, strict=True)) if i not in read}
            try:
                graph = import_graph(file, fixed_inputs=fixed, batch_axis=batch_axis)
                feeds = [
                    inputs[names.index(n)]
                    for n in graph.inputs
                    if graph.inputs[n].top in {i.name for i in graph.model.net.inputs}
                ]
                outputs = run_imported(graph.model, [_feed(a, batch_axis) for a in feeds])
            except PrototorchError as error:
                reasons.append(_short(str(error), str(path)))
                if any(text in reasons[-1] for text in _FINAL):
                    break
                continue
            outputs = [as_onnx(a, v) for a, v in zip(outputs, graph.outputs, strict=True)]
            difference = _difference(outputs, expected, tolerance)
            if difference is None:
                return Outcome(_WAYS[batch_axis] + (f", input {_join(read)} computed" if fixed else ""))
            reasons.insert(0, difference)
    return Outcome("", reasons[0] if reasons else "no inputs")


#: of results that the case has in lower precision; the net computes them in float32
_TOLERANCES = {"float16": 2e-3, "bfloat16": 2e-2}
#: reasons that hold in whatever way a case is tried
_FINAL = ("no layer does this", "control flow", "the domain", "ai.onnx.ml", "opset")
_WAYS = {0: "batch first", 1: "batch second", None: "one sample"}


def _join(numbers: frozenset[int]) -> str:
    return " and ".join(map(str, sorted(numbers)))


def _as_array(value: Any) -> Any:
    """A TensorProto as an array; other values as they are."""
    import onnx

    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _widened(array: Any) -> np.ndarray:
    """The array with float32 in place of other floating-point types, as nets compute."""
    array = np.asarray(array)
    is_float = array.dtype.kind == "f" or array.dtype.name in ("bfloat16", "float16", "float64")
    return array.astype(np.float32) if is_float else array


def _feed(array: np.ndarray, batch_axis: int | None) -> np.ndarray:
    return array[None] if batch_axis is None else np.moveaxis(array, batch_axis, 0)


def _ways(inputs: Any) -> Iterator[tuple[int | None, frozenset[int]]]:
    count = len(inputs)
    choices = [frozenset(range(n)) for n in range(count, 0, -1)] + [frozenset({i}) for i in range(1, count)]
    for axis in (0, 1):
        for read in choices:
            sizes = {inputs[i].shape[axis : axis + 1] for i in read}
            if len(sizes) == 1 and sizes != {()} and sizes != {(0,)}:
                yield axis, read
    for read in choices:
        yield None, read


def _difference(outputs: Any, expected: Any, tolerance: float) -> str | None:
    if len(outputs) != len(expected):
        return f"{len(outputs)} outputs"
    for mine, theirs in zip(outputs, expected, strict=True):
        if mine.shape != theirs.shape:
            return f"the shape {list(mine.shape)}, not {list(theirs.shape)}"
        if mine.dtype != theirs.dtype:
            return f"elements {mine.dtype}, not {theirs.dtype}"
        scale = np.abs(theirs[np.isfinite(theirs)]).max(initial=1) if theirs.dtype.kind == "f" else 0
        if not np.allclose(mine, theirs, max(RTOL, tolerance), tolerance * scale, equal_nan=True):
            return f"it differs by {np.nanmax(np.abs(mine.astype(float) - theirs.astype(float))):.2g}"
    return None


def _short(message: str, path: str) -> str:
    return message.replace(f"{path}: ", "")


TABLE = Path(__file__).with_name("node_tests.txt")
_HEADER = """\
# ONNX's own node tests (onnx.backend.test.case.node, onnx {version}): {passing} of {total} give their outputs as nets.
# Behind a name: the way in which it passes, or "-" and why it does not.
# Written by: python -m tests.interop.onnx.node_cases
"""


def read_table() -> dict[str, str]:
    """What stands behind each case's name in the table."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if not line.startswith("#"))


def write_table() -> None:
    """Run all cases and write the table."""
    import tempfile

    import onnx

    rows = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, case in sorted(node_cases().items()):
            try:
                outcome = run_case(case, Path(folder))
            except Exception as error:  # a defect, which the table must not hide
                outcome = Outcome("", f"DEFECT {error!r}")
            reason = " ".join(outcome.reason.split())
            rows[name] = outcome.way or f"- {reason.removeprefix('these ops cannot become layers: ')[:140]}"
    passing = sum(not row.startswith("- ") for row in rows.values())
    header = _HEADER.format(version=onnx.__version__, passing=passing, total=len(rows))
    TABLE.write_text(header + "".join(f"{n}: {row}\n" for n, row in rows.items()), encoding="utf-8")


if __name__ == "__main__":
    write_table()
