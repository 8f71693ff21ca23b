"""Broken and hostile ONNX files: each is refused with one sentence, in seconds, without memory for its claims."""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import time
from pathlib import Path

import numpy as np
import pytest

from prototorch.errors import ModelFileError, UsageError
from prototorch.interop.onnx.importer.model import import_onnx
from prototorch.model.loading.read.read_file import read_weights
from tests.interop.onnx.onnx_models import make_model, node

onnx = pytest.importorskip("onnx")
helper = onnx.helper
X = {"x": ["N", 4]}
SECONDS, MEGABYTES = 10, 1000


def model(*nodes, outputs=("y",), **options):
    return make_model(list(nodes), options.pop("inputs", X), list(outputs), **options)


def with_tensor(**fields):
    """A model that adds a broken initializer ``w`` of declared shape [4]."""
    m = model(node("Add", ["x", "w"], ["y"]))
    tensor = m.graph.initializer.add(name="w", data_type=fields.pop("data_type", 1))
    tensor.dims.extend(fields.pop("dims", [4]))
    for key, value in fields.items():
        if isinstance(value, list):
            getattr(tensor, key).extend(value)
        else:
            setattr(tensor, key, value)
    return m


def external(location, offset="0", length="16", file=True):
    def build(folder: Path):
        if file:
            (folder / "data.bin").write_bytes(bytes(16))
        m = with_tensor(data_location=1)
        for key, value in (("location", location), ("offset", offset), ("length", length)):
            m.graph.initializer[0].external_data.add(key=key, value=value)
        return m

    return build


def linked(folder: Path):
    (folder / "inner").mkdir()
    (folder.parent / "outside.bin").write_bytes(bytes(16))
    os.symlink(folder.parent / "outside.bin", folder / "link.bin")
    return external("link.bin", file=False)(folder)


def linked_folder(folder: Path):
    os.symlink("/etc", folder / "etc")
    return external("etc/passwd", file=False)(folder)


def function(name, *nodes, domain="f"):
    return helper.make_function(
        domain, name, ["a"], ["b"], list(nodes), [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)]
    )


def with_functions(*functions, **options):
    m = model(node("F", ["x"], ["y"], domain="f"), **options)
    m.functions.extend(functions)
    m.opset_import.add(domain="f", version=1)
    return m


def doubling_functions():
    """Thirty functions, each of which calls the one before it twice."""
    functions = [function("F0", node("Relu", ["a"], ["b"]))]
    for i in range(1, 31):
        calls = [node(f"F{i - 1}", ["a"], ["c"], domain="f"), node(f"F{i - 1}", ["c"], ["b"], domain="f")]
        functions.append(function(f"F{i}" if i < 30 else "F", *calls))
    return with_functions(*functions)


def deep_subgraphs():
    graph = helper.make_graph([node("Relu", ["x"], ["y"])], "g", [], [])
    for _ in range(20):
        inner = node("If", ["c"], ["y"])
        inner.attribute.append(helper.make_attribute("then_branch", graph))
        graph = helper.make_graph([inner], "g", [], [])
    return model(*graph.node)


def two_of(kind):
    m = model(node("Add", ["x", "w"], ["y"]), weights={"w": np.zeros(4, np.float32)})
    if kind == "initializer":
        m.graph.initializer.append(m.graph.initializer[0])
    elif kind == "node":
        m.graph.node.append(m.graph.node[0])
    elif kind == "input":
        m.graph.input.append(m.graph.input[0])
    elif kind == "opset":
        m.opset_import.add(domain="", version=9)
    return m


def shaped(shape):
    return model(node("Relu", ["x"], ["y"]), inputs={"x": shape})


def constant_bomb(op, sizes):
    weights = {"s": np.array(sizes, np.int64), "v": np.ones((1,) * len(sizes), np.float32)}
    inputs = ["s"] if op == "ConstantOfShape" else ["v", "s"]
    return model(
        node(op, inputs, ["c"]), node("Add", ["c", "c"], ["d"]), node("Add", ["x", "d"], ["y"]), weights=weights
    )


def value_bomb(op, sizes):
    return model(
        node(op, ["x", "s"], ["a"]),
        node(op, ["a", "s"], ["b"]),
        node(op, ["b", "s"], ["y"]),
        weights={"s": np.array(sizes, np.int64)},
    )


def chain(count):
    names = ["x", *(f"v{i}" for i in range(count - 1)), "y"]
    nodes = [onnx.NodeProto(op_type="Relu", input=[a], output=[b]) for a, b in itertools.pairwise(names)]
    return model(*nodes)


GRAPHS = {
    "external path with ..": (external("../data.bin"), "only files in the model's own folder"),
    "absolute external path": (external("/etc/passwd"), "only files in the model's own folder"),
    "external path of another system": (external("..\\data.bin"), "only files in the model's own folder"),
    "external path with a drive": (external("c:data.bin"), "only files in the model's own folder"),
    "no external path": (external(""), "only files in the model's own folder"),
    "external symbolic link": (linked, "a symbolic link"),
    "external folder that is a link": (linked_folder, "a symbolic link"),
    "external file that is missing": (external("none.bin"), "cannot be read"),
    "external negative offset": (external("data.bin", "-8"), "expected an integer"),
    "external offset that is no number": (external("data.bin", "1e3"), "expected an integer"),
    "external offset beyond the end": (external("data.bin", "8"), "not within the file"),
    "external offset of 2^63": (external("data.bin", str(1 << 63)), "not within the file"),
    "external length of another size": (external("data.bin", "0", "8"), "its shape needs 16"),
    "data here and elsewhere": (lambda f: with_tensor(data_location=1, raw_data=bytes(16)), "both in this file"),
    "2^60 elements": (lambda f: with_tensor(dims=[1 << 30, 1 << 30]), "impossible shape"),
    "2^40 elements": (lambda f: with_tensor(dims=[1 << 40]), "elements, its shape"),
    "a negative size": (lambda f: with_tensor(dims=[-4]), "impossible shape"),
    "raw data that are too short": (lambda f: with_tensor(raw_data=bytes(12)), "12 bytes, float32"),
    "raw data that are too long": (lambda f: with_tensor(raw_data=bytes(9999)), "9,999 bytes, float32"),
    "too few numbers": (lambda f: with_tensor(float_data=[1.0]), "1 elements, its shape"),
    "elements of type 99": (lambda f: with_tensor(data_type=99, raw_data=bytes(16)), "type 99"),
    "strings as weights": (lambda f: with_tensor(data_type=8), "type string"),
    "a boolean of 7": (lambda f: with_tensor(data_type=9, raw_data=b"\7" * 4), "neither 0 nor 1"),
    "40 dimensions": (lambda f: with_tensor(dims=[1] * 40, float_data=[1.0]), "impossible shape"),
    "a circle": (lambda f: model(node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Abs", ["b"], ["y"])),
                 "a circle"),
    "a node that reads itself": (lambda f: model(node("Add", ["x", "y"], ["y"])), "a circle"),
    "a value that nothing computes": (lambda f: model(node("Add", ["x", "w"], ["y"])), "which nothing computes"),
    "an output that nothing computes": (lambda f: model(node("Relu", ["x"], ["z"])), "nothing computes the output"),
    "two initializers of one name": (lambda f: two_of("initializer"), "two initializers"),
    "a value computed twice": (lambda f: two_of("node"), "computed twice"),
    "two inputs of one name": (lambda f: two_of("input"), "one name"),
    "two versions of an opset": (lambda f: two_of("opset"), "two versions"),
    "no opset": (lambda f: model(node("Relu", ["x"], ["y"]), opset=6), "opset 6"),
    "an opset to come": (lambda f: model(node("Relu", ["x"], ["y"]), opset=99), "opset 99"),
    "a function that calls itself": (lambda f: with_functions(function("F", node("F", ["a"], ["b"], domain="f"))),
                                     "more than 20 levels"),
    "functions that double": (lambda f: doubling_functions(), "more than"),
    "a function that reads nothing": (lambda f: with_functions(function("F", node("Relu", ["q"], ["b"]))),
                                      "which nothing computes"),
    "subgraphs in subgraphs": (lambda f: deep_subgraphs(), "levels deep"),
    "control flow": (lambda f: model(node("If", ["x"], ["y"])), "control flow"),
    "classical models": (lambda f: model(node("Scaler", ["x"], ["y"], domain="ai.onnx.ml")), "ai.onnx.ml"),
    "300,000 nodes": (lambda f: chain(300_000), "more than 250,000 nodes"),
    "an input without a shape": (lambda f: shaped(None), "has no shape"),
    "an input of 2^62 elements": (lambda f: shaped(["N", 1 << 31, 1 << 31]), "too large"),
    "a constant of 2^60 elements": (lambda f: constant_bomb("ConstantOfShape", [1 << 30, 1 << 30]), "is not computed"),
    "a sum of repeated constants": (lambda f: constant_bomb("ConstantOfShape", [1 << 14, 1 << 14]), "is not computed"),
    "an expanded constant": (lambda f: constant_bomb("Expand", [1 << 30, 1 << 30]), "is not computed"),
    "a tiled constant": (lambda f: constant_bomb("Tile", [1 << 20, 1 << 20]), "is not computed"),
    "tiled values": (lambda f: value_bomb("Tile", [1, 1 << 20]), "cannot become layers"),
    "a reshape to nothing": (lambda f: model(node("Reshape", ["x", "s"], ["y"]), weights={"s": np.array([-1, -1])}),
                             "impossible shape"),
    "weights that do not fit": (lambda f: model(node("MatMul", ["x", "w"], ["y"]),
                                                weights={"w": np.zeros((5, 2), np.float32)}), "cannot become layers"),
}  # fmt: skip


def check(path: Path, text: str, read=import_onnx) -> None:
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with pytest.raises((ModelFileError, UsageError)) as error:
        read(str(path))
    assert text in str(error.value)
    assert "\n" not in str(error.value)
    assert time.monotonic() - start < SECONDS
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < MEGABYTES


@pytest.mark.parametrize("name", GRAPHS)
def test_hostile_graphs(tmp_path, name):
    build, text = GRAPHS[name]
    folder = tmp_path / "folder"
    folder.mkdir()
    built = build(folder)
    path = folder / "net.onnx"
    path.write_bytes(built.SerializeToString())
    check(path, text)


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def message(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


GOOD = model(node("MatMul", ["x", "w"], ["y"]), weights={"w": np.ones((4, 2000), np.float32)}).SerializeToString()
BYTES = {
    "nothing": (b"", "is empty"),
    "no protobuf": (b"\x08\x09\x12hello, world, this is a text", "truncated or damaged"),
    "half a file": (GOOD[: len(GOOD) // 2], "truncated"),
    "a length of 2^63": (b"\x08\x09" + varint(7 << 3 | 2) + varint(1 << 63) + bytes(10), "truncated"),
    "an integer without an end": (b"\x08\x09" + b"\xff" * 40, "no end"),
    "a wire type that is none": (b"\x08\x09\x0f", "wire type"),
    "two graphs": (GOOD + message(7, b""), "two graphs"),
    "no graph": (b"\x08\x09", "no graph"),
    "400,000 empty nodes": (b"\x08\x09" + message(7, b"\x0a\x00" * 400_000), "more than 250,000 nodes"),
    "4 million empty names": (b"\x08\x09" + message(7, b"\x52\x00" * 4_000_000), "fields"),
    "deep messages": (b"\x08\x09", "no graph"),
    "80 MB of small integers": (
        b"\x08\x09" + message(7, message(5, message(7, b"\1" * (80 << 20)))), "integers that are not raw data"),
}  # fmt: skip


@pytest.mark.parametrize("name", BYTES)
def test_hostile_bytes(tmp_path, name):
    content, text = BYTES[name]
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    check(path, text)
    if content:
        check(path, text, read_weights)


def test_raw_data_twice(tmp_path):
    raw = message(9, bytes(8000))
    tensor = b"\x08\xd0\x0f\x10\x01" + message(8, b"w") + raw + raw
    path = tmp_path / "net.onnx"
    path.write_bytes(b"\x08\x09" + message(7, message(5, tensor)))
    check(path, "raw data twice", read_weights)


@pytest.mark.parametrize("count", [400, pytest.param(20_000, marks=pytest.mark.slow)])
def test_changed_bytes_never_crash(tmp_path, count):
    """Bytes changed, cut out and doubled: a file is read, or refused with an error of ours."""
    rng = np.random.default_rng(0)
    base = model(node("MatMul", ["x", "w"], ["a"]), node("Add", ["a", "b"], ["c"]), node("Reshape", ["c", "s"], ["y"]),
                 weights={"w": np.ones((4, 6), np.float32), "b": np.ones(6, np.float32), "s": np.array([0, 2, 3])}
                 ).SerializeToString()  # fmt: skip
    path = tmp_path / "net.onnx"
    for _ in range(count):
        content = bytearray(base)
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(0, len(content)))
            kind = rng.integers(0, 3)
            if kind == 0:
                content[at] = int(rng.integers(0, 256))
            elif kind == 1:
                del content[at : at + int(rng.integers(1, 9))]
            else:
                content[at:at] = content[at : at + int(rng.integers(1, 9))]
        path.write_bytes(bytes(content))
        with contextlib.suppress(ModelFileError, UsageError):
            import_onnx(str(path))
