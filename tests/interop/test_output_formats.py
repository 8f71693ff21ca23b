"""What messages say of the formats that are written."""

import re

import pytest

import prototorch as pt
from prototorch.errors import UsageError
from prototorch.interop.conversion import convert
from prototorch.interop.writers import output_formats


def _model() -> pt.Model:
    x = pt.Input((3,))
    return pt.Model(x, pt.layers.Dense(2)(x))


def _has_no_hole(message: str) -> bool:
    """Whether each title in the list of endings stands behind an ending."""
    parts = message.partition("there are ")[2].partition(";")[0].split(", ")
    return ".onnx (ONNX)" in parts and all(re.fullmatch(r"\.\S+ \([^()]+(\([^()]+\))?\)", part) for part in parts)


def test_an_unknown_ending_lists_the_formats_without_holes(tmp_path):
    """A format without an ending of its own (Caffe's net) is asked for by name."""
    with pytest.raises(UsageError) as error:
        _model().export(tmp_path / "x.prototxt")
    message = str(error.value)
    assert _has_no_hole(message)
    assert message.endswith(f"format= says which: {', '.join(one.name for one in output_formats())}")


def test_an_unknown_ending_of_a_conversion_lists_the_same_formats(tmp_path):
    _model().save(tmp_path / "m.h5")
    with pytest.raises(UsageError) as error:
        convert(str(tmp_path / "m.h5"), str(tmp_path / "x.xyz"))
    assert _has_no_hole(str(error.value))
