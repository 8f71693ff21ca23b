"""`load_model(text=...)`: a model from a string."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import TextError, UsageError

TEXT = """name: "m"
param classes: 3
input("x", [4])
Dense(8, activation: relu)
Dense(classes)
compile { loss: mse  optimizer: adam }
"""


def test_a_text_is_the_model_of_the_file_with_it(tmp_path):
    (tmp_path / "m.proto").write_text(TEXT)
    from_text, from_file = pt.load_model(text=TEXT, classes=2), pt.load_model(tmp_path / "m.proto", classes=2)
    assert from_text.to_text() == from_file.to_text()
    assert from_text.predict(np.zeros((2, 4), "float32"), verbose=0).shape == (2, 2)
    assert pt.load_model(text=TEXT, overrides=["classes=5"]).count_params() == 4 * 8 + 8 + 8 * 5 + 5
    assert pt.load_model(text=TEXT, compile=False).compile_block is None


def test_blocks_of_the_package():
    text = 'include conv_bn from "prototorch/blocks/resnet.proto"\ninput("x", [3, 8, 8])\nconv_bn(4, 3)\n'
    assert pt.load_model(text=text).count_params() > 0


def test_mistakes_have_their_place():
    with pytest.raises(TextError, match=r"<text>:2:7: Dense has no field 'unit'"):
        pt.load_model(text='input("x", [4])\nDense(unit: 3)\n')


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": "lenet", "text": TEXT}, "not both"),
        ({"text": 3}, "must be a string"),
        ({"text": 'layer { name: "a" type: "ReLU" bottom: "x" top: "y" }'}, "a text of Caffe"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        pt.load_model(**arguments)


def test_a_missing_source_is_refused():
    with pytest.raises((UsageError, TypeError)):
        pt.load_model()
