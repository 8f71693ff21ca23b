"""Messages written as text: read back equal, by our reader and by the protobuf package (which shares no code with it);
and what that package writes is read by ours."""

import random
import struct

import pytest
from google.protobuf import text_format

from prototorch.caffe.text.message import Message
from prototorch.caffe.text.message_types import enum_type, message_type
from prototorch.caffe.text.reader import read_message
from prototorch.caffe.text.writer import format_message
from tests.caffe.interop.protobuf_oracle import protobuf_message

_TEXTS = ("conv1", "a/b", "", "quote \" and '", "line\nbreak", "\\", "${x}", "ä€𝄞", "\x01\x7f", "//", "#")
_RANGES = {"int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1), "int64": (-(2**63), 2**63 - 1)}


def _random_message(name: str, draw: random.Random, depth: int = 0) -> Message:
    message = Message(name)
    for field in message.type.fields.values():
        if not field.is_required and draw.random() > (0.9 if depth == 0 else 0.4) / (1 + depth):
            continue
        if field.is_message and depth > 3:
            continue
        values = [_random_value(field, draw, depth) for _ in range(draw.randint(1, 3) if field.is_repeated else 1)]
        message[field.name] = values if field.is_repeated else values[0]
    return message


def _random_value(field, draw, depth):
    if field.is_message:
        return _random_message(field.type, draw, depth + 1)
    if field.is_enum:
        return draw.choice(list(enum_type(field.type).values))
    if field.type == "bool":
        return draw.random() < 0.5
    if field.type == "string":
        return draw.choice(_TEXTS)
    if field.type == "bytes":
        return bytes(range(256)) if draw.random() < 0.5 else b""
    if field.type in _RANGES:
        return draw.choice([*_RANGES[field.type], 0, 1, draw.randint(*_RANGES[field.type])])
    return _random_float(field.type, draw)


def _random_float(kind, draw):
    code, size = ("f", 4) if kind == "float" else ("d", 8)
    value = float("nan")
    while value != value:
        (value,) = struct.unpack(code, draw.randbytes(size))
    return draw.choice([0.0, 1.0, -0.5, 1e6, 2.0**53, float("inf"), float("-inf"), value])


def _to_message(theirs) -> Message:
    """A message of protobuf as one of ours."""
    message = Message(theirs.DESCRIPTOR.name)
    for field, value in theirs.ListFields():
        ours = message.type.fields[field.name]
        values = [_to_value(field, item) for item in (value if ours.is_repeated else [value])]
        message[field.name] = values if ours.is_repeated else values[0]
    return message


def _to_value(field, value):
    if field.message_type is not None:
        return _to_message(value)
    return field.enum_type.values_by_number[value].name if field.enum_type is not None else value


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", ["NetParameter", "SolverParameter", "LayerParameter", "V1LayerParameter"])
def test_random_messages(name, seed):
    message = _random_message(name, random.Random(f"{name}{seed}"))
    text = format_message(message)
    theirs = text_format.Parse(text, protobuf_message(name))
    assert _to_message(theirs) == message
    if b"\xff" not in theirs.SerializeToString():  # bytes that are no UTF-8 are not read from a text
        assert read_message(text, name) == message
        assert read_message(text_format.MessageToString(theirs), name) == message
        assert read_message(text_format.MessageToString(theirs, as_one_line=True), name) == message
        brackets = text_format.MessageToString(theirs, pointy_brackets=True, use_short_repeated_primitives=True)
        assert read_message(brackets, name) == message


@pytest.mark.parametrize("name", ["BlobShape", "FillerParameter", "Datum", "ClipParameter"])
def test_defaults_are_those_of_protobuf(name):
    theirs, ours = protobuf_message(name), Message(name)
    for field in message_type(name).fields.values():
        if not field.is_repeated and not field.is_message and not field.is_enum:
            assert type(ours[field.name]) is type(getattr(theirs, field.name))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, "0.1"), (0.0005, "0.0005"), (1.0, "1"), (1e-5, "1e-05"), (1e20, "1e+20"), (123456.0, "123456"),
     (16777216.0, "16777216"), (0.3333333432674408, "0.33333334"), (0.0, "0"), (-0.0, "-0")],
)  # fmt: skip
def test_floats_are_short(value, text):
    single = struct.unpack("f", struct.pack("f", value))[0]
    assert format_message(Message("ReLUParameter", negative_slope=single)) == f"negative_slope: {text}\n"


def test_layout():
    text = (
        'name: "n"\nlayer {\n  name: "data"\n  type: "Input"\n  top: "data"\n  include { phase: TEST }\n'
        "  input_param {\n    shape { dim: 1 dim: 3 }\n  }\n}\n"
    )
    assert format_message(read_message(text, "NetParameter")) == text
