"""Hostile and broken files of Caffe by ending and kind: a maker of each writes one to a path."""

from __future__ import annotations

import struct
from functools import partial

import h5py
import numpy as np

from tests.engine.storage.hostile_hdf5 import KINDS

__all__ = ["ENDINGS", "STATE_ENDINGS", "good", "makers"]

BUDGETS = {"a_sum_that_is_too_large"}  # bytes that are there: no limit for weights, which are mapped
ENDINGS = (".caffemodel", ".caffemodel.h5", ".binaryproto")
STATE_ENDINGS = (".solverstate", ".solverstate.h5")


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, content: bytes, declared: int | None = None) -> bytes:
    return varint(number << 3 | 2) + varint(len(content) if declared is None else declared) + content


def integer(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value & ((1 << 64) - 1))


def shape(*dims: int) -> bytes:
    return field(7, field(1, b"".join(varint(d & ((1 << 64) - 1)) for d in dims)))


def floats(count: int = 4, number: int = 5) -> bytes:
    return field(number, struct.pack(f"<{count}f", *range(count)))


def net(*blobs: bytes, name: bytes = b"conv", more: bytes = b"") -> bytes:
    layer = field(1, name) + field(2, b"Convolution") + b"".join(field(7, blob) for blob in blobs) + more
    return field(1, b"net") + field(100, layer)


def v1(*blobs: bytes, name: bytes = b"conv") -> bytes:
    return field(1, b"net") + field(2, field(4, name) + b"".join(field(6, blob) for blob in blobs))


GOOD_BLOB = floats() + shape(2, 2)
GOOD = net(GOOD_BLOB)
MESSAGES = {
    "nothing": b"",
    "no layer": field(1, b"net"),
    "layers without blobs": net(),
    "another program's bytes": b"\x00\x01\x02\x03" * 50,
    "random text": b"hello, this is no net at all\n" * 10,
    "a text net": b'name: "net"\nlayer { name: "a" type: "Input" }\n',
    "truncated in the data": GOOD[:-8],
    "truncated in the head": GOOD[:7],
    "a length beyond the file": field(1, b"net") + field(100, GOOD_BLOB, declared=1 << 40),
    "a length of 2**63": field(1, b"net") + field(100, GOOD_BLOB, declared=1 << 63),
    "a length without end": field(1, b"net") + b"\xa2\x06" + b"\xff" * 20,
    "a field number of 0": field(1, b"net") + b"\x00\x00",
    "a group": field(1, b"net") + b"\x0b\x0c",
    "wire type 7": field(1, b"net") + b"\x0f",
    "more values than the shape": net(floats(5) + shape(2, 2)),
    "fewer values than the shape": net(floats(3) + shape(2, 2)),
    "a shape and no values": net(shape(1 << 20, 1 << 10)),
    "a shape of 2**62": net(floats() + shape(1 << 31, 1 << 31)),
    "a shape of 2**200": net(floats() + shape(*[1 << 50] * 4)),
    "a negative size": net(floats() + shape(-2, -2)),
    "a thousand axes": net(floats(1) + shape(*[1] * 1000)),
    "a million axes": net(floats(1) + shape(*[1] * 1_000_000)),
    "zero axes of huge size": net(shape(0, 1 << 60)),
    "five bytes of floats": net(field(5, b"12345") + shape(1)),
    "seven bytes of doubles": net(field(8, b"1234567") + shape(1)),
    "a legacy shape that does not fit": net(floats() + integer(1, 2) + integer(2, 3)),
    "a negative legacy size": net(floats() + integer(1, -2) + integer(2, -2) + integer(3, 1) + integer(4, 1)),
    "a huge legacy size": net(floats() + b"".join(integer(i, (1 << 31) - 1) for i in (1, 2, 3, 4))),
    "a name with ..": net(GOOD_BLOB, name=b"../../etc/passwd"),
    "a name with a NUL": net(GOOD_BLOB, name=b"a\0b"),
    "a name with an escape": net(GOOD_BLOB, name=b"\x1b[2J"),
    "a name of 2 MB": net(GOOD_BLOB, name=b"x" * (2 << 20)),
    "an absolute name": net(GOOD_BLOB, name=b"/etc/passwd"),
    "400,000 layers": b"\xa2\x06\x00" * 400_000,
    "400,000 unknown fields": field(1, b"net") + b"\xf8\x7f\x00" * 400_000,
    "400,000 blobs": net(more=b"\x3a\x00" * 400_000),
    "400,000 single floats": net(b"\x2d\0\0\0\0\x35\0\0\0\0" * 200_000 + shape(200_000)),
    "V1 with a broken blob": v1(floats(3) + shape(2, 2)),
    "V1 truncated": v1(GOOD_BLOB)[:-3],
    "V0 with a broken blob": field(1, b"n") + field(2, field(1, field(1, b"a") + field(50, floats(3) + shape(2, 2)))),
    "a required field is missing": field(1, b"net") + field(100, field(1, b"a") + field(148, b"\x0d\0\0\0\0")),
}
BLOBS = {
    "nothing": b"",
    "a text": b"mean of the images\n" * 20,
    "truncated": GOOD_BLOB[:-3],
    "half of the values": floats(2) + shape(2, 2),
    "a huge shape": floats() + shape(1 << 31, 1 << 31),
    "a net": GOOD,
    "a million axes": floats(1) + shape(*[1] * 1_000_000),
    "a length beyond the file": field(5, b"1234", declared=1 << 50),
}  # fmt: skip
STATES = {
    "nothing": b"",
    "no iteration": field(2, b"net.caffemodel"),
    "a negative iteration": integer(1, -5),
    "a negative step": integer(1, 5) + integer(4, -1),
    "a broken history": integer(1, 5) + field(3, floats(3) + shape(2, 2)),
    "truncated": (integer(1, 5) + field(3, GOOD_BLOB))[:-2],
    "a net": GOOD,
    "400,000 histories": integer(1, 5) + b"\x1a\x00" * 400_000,
}


def _state_tree(**changes):
    def make(file):
        values = {"iter": np.array([3], "i4"), "current_step": np.array([0], "i4"), "history/0": np.ones(2, "f4")}
        values.update(changes)
        for name, value in values.items():
            if value is not None:
                file[name] = value

    return make


STATE_TREES = {
    "no iteration": _state_tree(iter=None),
    "two iterations": _state_tree(iter=np.array([3, 4], "i4")),
    "a float iteration": _state_tree(iter=np.array([3.5], "f4")),
    "a negative iteration": _state_tree(iter=np.array([-3], "i4")),
    "a gap in the history": _state_tree(**{"history/2": np.ones(2, "f4")}),
    "another array": _state_tree(weights=np.ones(2, "f4")),
    "a text of variable length": _state_tree(learned_net="net.caffemodel.h5"),
    "a long text": _state_tree(learned_net=np.bytes_(b"x" * 10_000)),
}


def good(path) -> None:
    """A file that is read."""
    ending = path.name[path.name.index(".") :]
    if ending == ".caffemodel.h5":
        with h5py.File(path, "w") as file:
            file["data/conv/0"] = np.ones((2, 2), "f4")
    else:
        path.write_bytes(GOOD_BLOB if ending == ".binaryproto" else GOOD)


def makers(ending: str) -> dict:
    """Writers of files with an ending by their kinds."""
    if ending == ".caffemodel.h5":
        return {name: partial(_write_kind, KINDS[name]) for name in list(KINDS)[::4] if name not in BUDGETS}
    if ending == ".solverstate.h5":
        return {name: partial(_write_tree, make) for name, make in STATE_TREES.items()}
    contents = {".caffemodel": MESSAGES, ".binaryproto": BLOBS, ".solverstate": STATES}[ending]
    return {name: partial(_write_bytes, content) for name, content in contents.items()}


def _write_bytes(content: bytes, path) -> None:
    path.write_bytes(content)


def _write_kind(kind, path) -> None:
    """A file of one layer, with an attack beside its blob."""
    make, _, libver = kind
    with h5py.File(path, "w", libver=libver) as file:
        file["data/conv/0"] = np.ones((2, 2), "f4")
        change = make(file, "data/conv/1")
    if change is not None:
        path.write_bytes(change(path.read_bytes()))


def _write_tree(make, path) -> None:
    with h5py.File(path, "w", libver=("earliest", "v108")) as file:
        make(file)
