"""Caffe's binary messages: read and written as the ``protobuf`` package does it, within bounds."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc

import numpy as np
import pytest

from prototorch.caffe.interop.wire import MAX_VALUES, ProtobufError, decode, encode, iter_encoded
from prototorch.caffe.text.message import Message
from prototorch.caffe.text.message_types import enum_type, message_type
from tests.caffe.interop.protobuf_oracle import MESSAGE_NAMES, protobuf_message

_SCALARS = {
    "bool": lambda r: r.random() < 0.5,
    "string": lambda r: r.choice(["", "conv1/7x7_s2", "größe", "x" * 300]),
    "bytes": lambda r: r.randbytes(r.choice([0, 3, 1000])),
    "float": lambda r: float(np.float32(r.uniform(-1e3, 1e3))),
    "double": lambda r: r.uniform(-1e3, 1e3),
    "int32": lambda r: r.choice([0, -1, 127, 128, -(1 << 31), (1 << 31) - 1]),
    "int64": lambda r: r.choice([0, -1, 300, -(1 << 63), (1 << 63) - 1]),
    "uint32": lambda r: r.choice([0, 1, 128, (1 << 32) - 1]),
}


def fill(message, name: str, rng: random.Random, depth: int = 0) -> None:
    """Every field of a message of protobuf's own with values; repeated ones with up to three."""
    for field in message_type(name).fields.values():
        if field.type == "NetParameter" or (depth > 2 and field.is_message):
            continue
        count = rng.randrange(4) if field.is_repeated else 1
        for _ in range(count):
            if field.is_message:
                inner = getattr(message, field.name)
                inner = inner.add() if field.is_repeated else inner
                inner.SetInParent() if not field.is_repeated else None
                fill(inner, field.type, rng, depth + 1)
            elif field.is_enum:
                number = rng.choice(list(enum_type(field.type).values.values()))
                getattr(message, field.name).append(number) if field.is_repeated else setattr(
                    message, field.name, number
                )
            else:
                value = _SCALARS[field.type](rng)
                getattr(message, field.name).append(value) if field.is_repeated else setattr(message, field.name, value)


def check_equal(ours: Message, theirs, name: str) -> None:
    for field in message_type(name).fields.values():
        value = getattr(theirs, field.name)
        if field.is_repeated:
            assert ours.has(field.name) == bool(len(value))
        else:
            assert ours.has(field.name) == theirs.HasField(field.name), field.name
        if not ours.has(field.name):
            continue
        pairs = zip(ours[field.name], value, strict=True) if field.is_repeated else [(ours[field.name], value)]
        for mine, other in pairs:
            if field.is_message:
                check_equal(mine, other, field.type)
            elif field.is_enum:
                assert enum_type(field.type).values[mine] == other
            else:
                assert mine == other, field.name


@pytest.mark.parametrize("name", MESSAGE_NAMES)
def test_messages_are_read_and_written_as_protobuf_does(name):
    rng = random.Random(name)
    for _ in range(1 if name in ("NetParameter", "SolverParameter") else 3):
        theirs = protobuf_message(name)
        fill(theirs, name, rng)
        content = theirs.SerializeToString()
        unknown: dict[str, int] = {}
        ours = decode(content, name, unknown)
        check_equal(ours, theirs, name)
        assert unknown == {}
        assert encode(ours) == content
        assert b"".join(iter_encoded(ours)) == content


def field(number: int, kind: int, content: bytes) -> bytes:
    return bytes([number << 3 | kind]) + content


@pytest.mark.parametrize("count", [1, 7, 8, 9, 100])
def test_elements_with_a_tag_each_are_one_array(count):
    values = np.arange(count, dtype="<f4")
    content = b"".join(field(5, 5, struct.pack("<f", value)) for value in values)
    packed = field(5, 2, bytes([4])) + struct.pack("<f", 99)
    blob = decode(content + packed + content, "BlobProto")
    expected = protobuf_message("BlobProto")
    expected.ParseFromString(content + packed + content)
    assert blob["data"].dtype == np.float32
    np.testing.assert_array_equal(blob["data"], list(expected.data))


def test_arrays_are_views_of_the_bytes():
    content = encode(Message("BlobProto", data=np.ones(1 << 20, np.float32)))
    tracemalloc.start()
    blob = decode(content, "BlobProto")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
    assert np.shares_memory(blob["data"], np.frombuffer(content, "u1"))
    assert not blob["data"].flags.writeable


def test_unknown_fields_are_named_and_left_out():
    layer = protobuf_message("LayerParameter")
    layer.name = "a"
    extra = b"\xb2\x09\x02\x08\x01" * 3  # field 150, a message of a fork
    unknown: dict[str, int] = {}
    message = decode(layer.SerializeToString() + extra, "LayerParameter", unknown)
    assert message["name"] == "a"
    assert unknown == {"LayerParameter field 150": 3}


def test_unknown_enum_values_are_left_out():
    unknown: dict[str, int] = {}
    message = decode(b"\x08\x09\x10\x05", "PoolingParameter", unknown)  # pool: 9, kernel_size: 5
    assert not message.has("pool")
    assert message["kernel_size"] == 5
    assert unknown == {"PoolingParameter.PoolMethod value 9": 1}


def test_a_message_that_occurs_twice_is_merged():
    content = b"".join(encode(Message("LayerParameter", lrn_param=Message("LRNParameter", **fields)))
                       for fields in ({"local_size": 3, "alpha": 2.0}, {"alpha": 4.0}))  # fmt: skip
    expected = protobuf_message("LayerParameter")
    expected.ParseFromString(content)
    assert decode(content, "LayerParameter") == decode(expected.SerializeToString(), "LayerParameter")


@pytest.mark.parametrize(
    ("content", "type_name", "reason"),
    [
        (b"\x2a\x05abcde", "BlobProto", "data has 5 bytes, not a multiple of 4"),
        (b"\x0a\x05abc", "NetParameter", "field 1 has 5 bytes, but 3 are left"),
        (b"\x0d\x00\x00\x00\x00", "ClipParameter", "a ClipParameter without its max"),
        (b"\x0b", "NetParameter", "wire type 3"),
        (b"\xa2\x06\x00" * (MAX_VALUES + 1), "NetParameter", "more than 300,000 values"),
        (b"\x0a" + b"\xff\xff\xff\x07" + b"\x01" * 16777215, "BlobShape", "numbers in a field"),
    ],
    ids=["cut array", "cut message", "required field", "group", "many messages", "many numbers"],
)
def test_damaged_and_hostile_bytes_are_refused(content, type_name, reason):
    start = time.perf_counter()
    with pytest.raises(ProtobufError, match=reason):
        decode(content, type_name)
    assert time.perf_counter() - start < 10


def test_random_changes_raise_nothing_else():
    rng = random.Random(7)
    net = protobuf_message("NetParameter")
    fill(net, "NetParameter", rng)
    content = net.SerializeToString()
    for _ in range(100):
        damaged = bytearray(content)
        for _ in range(rng.randrange(1, 5)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        damaged = damaged[: rng.randrange(len(damaged))] if rng.random() < 0.3 else damaged
        try:
            decode(bytes(damaged), "NetParameter")
        except ProtobufError:
            continue


def test_a_message_without_a_required_field_is_not_written():
    with pytest.raises(ProtobufError, match="a ClipParameter without its max"):
        encode(Message("ClipParameter", min=0.0))
