"""The cases that real Caffe made (tests/caffe/golden/README.md): run them here, and compare."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from prototorch.caffe.net import Net
from prototorch.caffe.text.message import Message
from prototorch.caffe.text.net_state import filter_net
from prototorch.caffe.text.reader import read_net_file

GOLDEN = Path(__file__).parent / "golden"
CASE_NAMES = sorted(path.stem for path in (GOLDEN / "layers").glob("*.npz"))
TOLERANCES = {"float32": 1e-5, "float64": 1e-9}


@dataclass(frozen=True)
class Case:
    """A case by its name: its net, its arrays, and what real Caffe said of it."""

    name: str

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays of the case, by the keys of the README."""
        with np.load(GOLDEN / "layers" / f"{self.name}.npz") as file:
            return {key: file[key] for key in file.files if key != "meta"}

    @cached_property
    def meta(self) -> dict[str, Any]:
        """The phase, the loss, what has no gradient."""
        with np.load(GOLDEN / "layers" / f"{self.name}.npz") as file:
            return json.loads(str(file["meta"]))  # type: ignore[no-any-return]

    @property
    def message(self) -> Message:
        """The net of the case, for its phase."""
        net = read_net_file(GOLDEN / "layers" / f"{self.name}.prototxt")
        return filter_net(net, self.meta["phase"])

    def keys(self, kind: str) -> list[tuple[str, ...]]:
        """The parts of the keys that begin with "in", "out", "param", ... without that beginning."""
        return [tuple(key.split("/")[1:]) for key in self.arrays if key.startswith(f"{kind}/")]


def make_net(case: Case, dtype: str) -> Net:
    """The net of a case with its inputs and parameters."""
    net = Net.from_message(case.message, case.meta["phase"], precision=dtype, seed=0)
    for (blob,) in case.keys("in"):
        net.blobs[blob].data[...] = case.arrays[f"in/{blob}"]
    for layer, index in case.keys("param"):
        net.params[layer][int(index)].data[...] = case.arrays[f"param/{layer}/{index}"]
    return net


def assert_close(case: Case, key: str, actual: np.ndarray, dtype: str) -> None:
    """Compare an array with that of a case; elements that are nearly 0 beside the others count as 0.

    Sums that cancel are compared within twice the difference of Caffe's own two precisions.
    """
    wide = f"f64/{key}"
    expected = case.arrays[wide if dtype == "float64" and wide in case.arrays else key]
    assert actual.shape == expected.shape, key
    tolerance = TOLERANCES[dtype]
    scale = float(np.max(np.abs(expected), initial=0.0))
    noise = 2 * float(np.max(np.abs(expected - case.arrays.get(wide, expected)), initial=0.0))
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=max(tolerance * scale, noise), err_msg=key)


def check_forward(case: Case, net: Net, dtype: str) -> None:
    """Run a net with the inputs of its case, and compare its blobs and parameters."""
    loss = net.forward_range(0, len(net.caffe_net.layers) - 1)
    assert loss == np.float64(case.meta["loss"]) or abs(loss - case.meta["loss"]) <= 1e-5 * abs(case.meta["loss"])
    for (blob,) in case.keys("out"):
        assert_close(case, f"out/{blob}", net.blobs[blob].data, dtype)
    for layer, index in case.keys("param_after"):
        assert_close(case, f"param_after/{layer}/{index}", net.params[layer][int(index)].data, dtype)


def check_backward(case: Case, net: Net, dtype: str) -> None:
    """Run the backward pass from the gradients of a case, and compare those of its blobs and parameters."""
    for (blob,) in case.keys("gtop"):
        net.blobs[blob].diff[...] = case.arrays[f"gtop/{blob}"]
    net.backward_range(0, len(net.caffe_net.layers) - 1)
    for (blob,) in case.keys("gin"):
        assert_close(case, f"gin/{blob}", net.blobs[blob].diff, dtype)
    for layer, index in case.keys("gparam"):
        assert_close(case, f"gparam/{layer}/{index}", net.params[layer][int(index)].diff, dtype)
