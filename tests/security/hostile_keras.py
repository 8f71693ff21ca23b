"""Hostile and broken files of Keras and NNabla by format and kind: a maker of each writes one to a path.

Makers of HDF5 files are those of `tests.engine.storage.hostile_hdf5`, at a place in a file of Keras, and the ones here.
"""

import io
import json
import struct
import warnings
import zipfile
import zlib

import h5py
import numpy as np

from tests.engine.storage.hostile_hdf5 import KINDS

__all__ = ["CODE_CONFIGS", "FORMATS", "good_archive", "good_model", "makers"]

HALF = frozenset(list(KINDS)[::2])  # in a legacy file; the others in a ``.weights.h5``
BUDGETS = {"a_sum_that_is_too_large"}  # bytes that are there: no limit for weights, which are mapped
FORMATS = (".h5", ".weights.h5", ".keras", ".nnp")
CONFIG = {"class_name": "Sequential", "config": {"name": "s", "layers": [
    {"class_name": "Dense", "config": {"name": "dense", "units": 2}},
]}}  # fmt: skip
DEEP = '{"class_name": ' + "[" * 200_000 + "]" * 200_000 + "}"


def good_model(file, config=CONFIG):
    """A whole legacy model of one Dense."""
    file.attrs["model_config"] = config if isinstance(config, str) else json.dumps(config)
    group = file.create_group("model_weights")
    group.attrs["layer_names"] = [b"dense"]
    layer = group.create_group("dense")
    layer.attrs["weight_names"] = [b"dense/kernel:0", b"dense/bias:0"]
    layer["dense/kernel:0"] = np.ones((3, 2), "f4")
    layer["dense/bias:0"] = np.ones(2, "f4")
    return group


def _without_kernel(file):
    del good_model(file)["dense/dense/kernel:0"]


def good_weights(file):
    """A ``.weights.h5`` of one Dense."""
    group = file.create_group("layers/dense/vars")
    group.attrs["name"] = "dense"
    group["0"], group["1"] = np.ones((3, 2), "f4"), np.ones(2, "f4")
    return group


def hdf5(make):
    with io.BytesIO() as buffer:
        with h5py.File(buffer, "w", libver=("earliest", "v108")) as file:
            make(file)
        return buffer.getvalue()


def archive(members, compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", compression) as file:
        warnings.simplefilter("ignore")  # of names that occur twice
        for name, content in members:
            file.writestr(name, content)
    return buffer.getvalue()


def good_archive(config=CONFIG, weights=None, compression=zipfile.ZIP_STORED, more=()):
    content = [("metadata.json", '{"keras_version": "3.0.0"}'), ("config.json", config), ("model.weights.h5", weights)]
    content[1] = ("config.json", config if isinstance(config, str) else json.dumps(config))
    content[2] = ("model.weights.h5", hdf5(good_weights) if weights is None else weights)
    return archive([*content, *more], compression)


def in_hdf5(base, name, place):
    """A kind of `hostile_hdf5` at a place of a good file."""

    def write(path):
        make, _, libver = KINDS[name]
        with h5py.File(path, "w", libver=libver) as file:
            base(file)
            change = make(file, place)
        if change is not None:
            path.write_bytes(change(path.read_bytes()))

    return write


def changed(base, change):
    def write(path):
        with h5py.File(path, "w", libver=("earliest", "v108")) as file:
            change(file, base(file))

    return write


def of_bytes(content):
    return lambda path: path.write_bytes(content)


def set_attribute(name, value, place=""):
    def change(file, group):
        target = file[place] if place else group
        target.attrs[name] = value

    return change


def _legacy():
    layer = "model_weights/dense"
    configs = {
        "config of 200,000 levels": DEEP,
        "config that is cut off": '{"class_name": "Sequential", "config": ',
        "config that is a list": "[]",
        "config without a class": '{"config": {"layers": []}}',
        "config whose layers are text": '{"class_name": "Sequential", "config": {"layers": "many"}}',
        "config whose layer is a number": '{"class_name": "Sequential", "config": [1]}',
        "config of a number of 10,000 digits": '{"class_name": "Sequential", "config": {"layers": ['
        + "9" * 10_000
        + "]}}",
        "config of nested models": json.dumps(nested(150)),
        "config that is no text": '"\\ud800',
    }
    rows = {name: changed(lambda file, c=c: good_model(file, c), lambda *_: None) for name, c in configs.items()}
    rows |= {
        "layer that is not there": changed(good_model, set_attribute("layer_names", [b"dense", b"other"])),
        "layer listed twice": changed(good_model, set_attribute("layer_names", [b"dense", b"dense"])),
        "layer names that are numbers": changed(good_model, set_attribute("layer_names", [1, 2])),
        "layer with a path upwards": changed(good_model, set_attribute("layer_names", [b"../dense"])),
        "weight that is not there": changed(good_model, set_attribute("weight_names", [b"dense/other:0"], layer)),
        "weight with a path upwards": changed(good_model, set_attribute("weight_names", [b"../../x"], layer)),
        "weight that is a group": changed(good_model, set_attribute("weight_names", [b"dense"], layer)),
        "weight names that are numbers": changed(good_model, set_attribute("weight_names", [3.5], layer)),
        "weight names of bytes that are no text": changed(
            good_model, set_attribute("weight_names", [b"\xff\xfe"], layer)
        ),
        "no layers": changed(good_model, set_attribute("layer_names", np.array([], "S1"))),
        "weight_names0 alone is missing": changed(good_model, lambda f, g: delete(g["dense"].attrs, "weight_names")),
        "2^62 layers": changed(lambda f: f, set_attribute("nb_layers", 1 << 62)),
        "-1 layers": changed(lambda f: f, set_attribute("nb_layers", -1)),
        "layers that are a text": changed(lambda f: f, set_attribute("nb_layers", "3")),
        "2^40 arrays of a layer": changed(numbered, set_attribute("nb_params", 1 << 40, "layer_0")),
        "array of a layer that is not there": changed(numbered, set_attribute("nb_params", 1, "layer_0")),
        "model without weights": changed(lambda f: f, set_attribute("model_config", json.dumps(CONFIG))),
        "empty": of_bytes(b""),
        "a page of a web site": of_bytes(b"<!DOCTYPE html><html><body>404</body></html>"),
    }
    return rows | {name: in_hdf5(_without_kernel, name, f"{layer}/dense/kernel:0") for name in HALF}


def numbered(file):
    file.attrs["nb_layers"] = 1
    file.create_group("layer_0").attrs["nb_params"] = 0
    return file


def delete(attributes, name):
    del attributes[name]


def nested(depth):
    config = {"class_name": "Dense", "config": {"name": "d"}}
    for k in range(depth):
        config = {"class_name": "Sequential", "config": {"name": f"m{k}", "layers": [config]}}
    return config


def _vars():
    rows = {
        "numbers left out": changed(good_weights, lambda f, g: f.move("layers/dense/vars/1", "layers/dense/vars/7")),
        "two layers of one name": changed(good_weights, lambda f, g: _second_layer(f, "dense")),
        "name with a control character": changed(good_weights, set_attribute("name", "a\x1b[2J")),
        "name upwards": changed(good_weights, set_attribute("name", "../../etc/passwd")),
        "name of 5,000 characters": changed(good_weights, set_attribute("name", "n" * 5000)),
        "name that turns around": changed(good_weights, set_attribute("name", "a\u202eb")),
        "arrays without numbers": changed(
            lambda f: f, lambda f, g: f.create_dataset("layers/d/vars/x", data=np.ones(2))
        ),
        "groups alone": changed(lambda f: f, lambda f, g: f.create_group("layers/dense/vars")),
        "the optimizer alone": changed(lambda f: f, lambda f, g: f.create_dataset("optimizer/vars/0", data=np.ones(2))),
        "only a signature": of_bytes(b"\x89HDF\r\n\x1a\n"),
    }
    return rows | {name: in_hdf5(good_weights, name, "layers/dense/vars/2") for name in KINDS.keys() - HALF - BUDGETS}


def _second_layer(file, name):
    group = file.create_group("layers/dense_1/vars")
    group.attrs["name"] = name
    group["0"] = np.ones(3, "f4")


def zip_rows(good, weights):
    """What can be wrong with an archive; weights: the member whose bytes are attacked."""
    end = good.rindex(b"PK\5\6")
    entry = good.rindex(b"PK\1\2")
    local = good.index(weights.encode()) - 30

    def patch(at, form, value, content=good):
        return content[:at] + struct.pack(form, value) + content[at + struct.calcsize(form) :]

    rows = {
        "cut off in the middle": good[: len(good) // 2],
        "cut off by one byte": good[:-1],
        "no directory": good[:end],
        "a directory beyond the end": patch(end + 16, "<I", len(good) + 99),
        "a directory of 4 GB": patch(end + 12, "<I", 0xFFFFFFF0),
        "an encrypted member": patch(entry + 8, "<H", 1),
        "compression method 99": patch(entry + 10, "<H", 99),
        "a member of 2^32 - 2 bytes": patch(entry + 24, "<I", 0xFFFFFFFE),
        "a member that begins beyond the end": patch(entry + 42, "<I", len(good) + 5),
        "overlapping members": patch(entry + 42, "<I", 0),
        "another name before the bytes": good[: local + 30] + b"X" + good[local + 31 :],
        "a flipped byte": good[: local + 200] + bytes([good[local + 200] ^ 1]) + good[local + 201 :],
    }
    return {name: of_bytes(content) for name, content in rows.items()}


def _keras():
    rows = {
        "config of 200,000 levels": good_archive(DEEP),
        "config that is cut off": good_archive('{"class_name": '),
        "config that is a number": good_archive("7"),
        "config that is empty": good_archive(""),
        "config without a class": good_archive("{}"),
        "config of 20 MB": good_archive('{"class_name": "' + "x" * (20 << 20) + '"}', compression=zipfile.ZIP_DEFLATED),
        "config of 150 nested models": good_archive(json.dumps(nested(150))),
        "config whose layers are text": good_archive('{"class_name": "Sequential", "config": {"layers": "many"}}'),
        "config of 32 MB of zeros": zlib_zip("config.json", 32 << 20),
        "weights of 128 MB of zeros": zlib_zip("model.weights.h5", 128 << 20),
        "weights that are no HDF5": good_archive(weights=b"not HDF5 at all" * 100),
        "weights that are empty": good_archive(weights=b""),
        "weights that are cut off": good_archive(weights=hdf5(good_weights)[:-100]),
        "weights of another layout": good_archive(weights=hdf5(lambda f: f.create_dataset("x", data=np.ones(2)))),
        "weights missing": archive([("metadata.json", "{}"), ("config.json", json.dumps(CONFIG))]),
        "metadata that is a list": archive([("metadata.json", "[]"), ("config.json", json.dumps(CONFIG))]),
        "a member upwards": good_archive(more=[("../../evil.py", "import os")]),
        "an absolute member": good_archive(more=[("/etc/evil", "x")]),
        "a member with a control character": good_archive(more=[("a\x1bb", "x")]),
        "weights twice": good_archive(more=[("model.weights.h5", b"x")]),
        "config twice": good_archive(more=[("config.json", b"{}")]),
    }
    table = {name: of_bytes(content) for name, content in rows.items()} | zip_rows(good_archive(), "model.weights.h5")
    for name in (
        "external_link_absolute",
        "soft_link_dangling",
        "opaque_python_objects",
        "a_gigabyte_of_zeros_deflated",
        "truncated_in_the_middle",
    ):
        table[f"weights with {name}"] = lambda path, name=name: _wrapped(path, name)
    return table


def _wrapped(path, name):
    in_hdf5(good_weights, name, "layers/dense/vars/2")(path)
    path.write_bytes(good_archive(weights=path.read_bytes()))


def zlib_zip(large, size):
    """A good archive whose member of this name is that many zeros, compressed."""
    packer = zlib.compressobj(1, wbits=-15)
    packed = b"".join(packer.compress(bytes(1 << 24)) for _ in range(size >> 24)) + packer.flush()
    content = good_archive(compression=zipfile.ZIP_DEFLATED)
    files = zipfile.ZipFile(io.BytesIO(content))
    parts, directory = b"", b""
    for info in files.infolist():
        data = files.read(info)
        packer = zlib.compressobj(9, wbits=-15)
        stored = packed if info.filename == large else packer.compress(data) + packer.flush()
        length = size if info.filename == large else len(data)
        crc = 1 if info.filename == large else zlib.crc32(data)
        fields = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, crc, len(stored), length, len(info.filename), 0)
        directory += (
            b"PK\1\2"
            + struct.pack("<H", 20)
            + fields[:-4]
            + struct.pack("<HHHHHII", len(info.filename), 0, 0, 0, 0, 0, len(parts))
            + info.filename.encode()
        )
        parts += b"PK\3\4" + fields + info.filename.encode() + stored
    end = struct.pack("<HHHHIIH", 0, 0, 3, 3, len(directory), len(parts), 0)
    return parts + directory + b"PK\5\6" + end


def varint(value):
    content = b""
    while value > 127:
        content, value = content + bytes([value & 127 | 128]), value >> 7
    return content + bytes([value])


def field(number, value):
    """A field of bytes, or of an integer."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def parameter(name=b"w", shape=(2, 3), data=None):
    content = np.arange(int(np.prod(shape)), dtype="<f4").tobytes() if data is None else data
    dims = b"".join(field(1, n) for n in shape)
    return field(200, field(1, name) + field(20, dims) + field(100, content) + field(101, 1))


def nnp(parameters, more=(), name="parameter.protobuf"):
    return archive([("nnp_version.txt", "0.1\n"), (name, parameters), *more], zipfile.ZIP_DEFLATED)


def _nnabla():
    good = parameter()
    rows = {
        "cut off within a number": good + b"\x80",
        "a number of 11 bytes": b"\x80" * 11 + b"\x01",
        "a number above 2^64": b"\xff" * 9 + b"\x7f",
        "a length beyond the end": varint(200 << 3 | 2) + varint(10_000) + b"x",
        "a length of 2^63": varint(200 << 3 | 2) + varint(1 << 63),
        "a group": varint(7 << 3 | 3),
        "the end of a group": varint(7 << 3 | 4),
        "wire type 6": varint(7 << 3 | 6),
        "wire type 7": varint(7 << 3 | 7),
        "field number 0": b"\x02\x01x",
        "field number 2^40": varint(1 << 43 | 2) + b"\x01x",
        "a parameter without a name": parameter(b""),
        "a name upwards": parameter(b"../../x"),
        "a name with a control character": parameter(b"a\x1bb"),
        "a name of 1,500 characters": parameter(b"n" * 1500),
        "a parameter twice": good + good,
        "too few elements": parameter(data=bytes(20)),
        "too many elements": parameter(data=bytes(28)),
        "half an element": parameter(data=bytes(23)),
        "2^60 elements": parameter(shape=(1 << 30, 1 << 30), data=bytes(8)),
        "a dimension of -1": parameter(shape=((1 << 64) - 1,), data=bytes(4)),
        "2^63 times zero": parameter(shape=(1 << 63, 0), data=b""),
        "40 dimensions": parameter(shape=(1,) * 40, data=bytes(4)),
        "a million packed dimensions": field(200, field(1, b"w") + field(20, field(1, b"\x01" * 1_000_000)) + field(100, bytes(4))),  # noqa: E501
        "20,001 parameters": b"".join(parameter(b"w%d" % k, (), bytes(4)) for k in range(20_001)),
        "a shape that is cut off": field(200, field(1, b"w") + field(20, b"\x08\x80")),
        "elements that are cut off": field(200, field(1, b"w") + varint(100 << 3 | 2) + varint(400)),
        "fixed elements that are too many": field(200, field(1, b"w") + field(20, field(1, 1)) + (varint(100 << 3 | 5) + bytes(4)) * 2),  # noqa: E501
        "fixed elements that are cut off": field(200, field(1, b"w") + varint(100 << 3 | 5) + b"x"),
    }  # fmt: skip
    table = {name: of_bytes(nnp(content)) for name, content in rows.items()}
    table |= {
        "no parameters": of_bytes(archive([("nnp_version.txt", "0.1")])),
        "two files of parameters": of_bytes(nnp(good, [("parameter.h5", b"x")])),
        "parameters that are no HDF5": of_bytes(nnp(b"x" * 1000, name="parameter.h5")),
        "a bomb": of_bytes(nnp(bytes(64 << 20))),
        "a member upwards": of_bytes(nnp(good, [("../../evil.py", "x")])),
    }
    table |= zip_rows(
        archive([("nnp_version.txt", "0.1"), ("parameter.protobuf", good * 1 + bytes(0))]), "parameter.protobuf"
    )
    return table


def makers(ending):
    """The kinds of a format: name -> function that writes the file."""
    return {".h5": _legacy, ".weights.h5": _vars, ".keras": _keras, ".nnp": _nnabla}[ending]()


#: configs that have made Keras run code, read files or open connections: read here as data
CODE_CONFIGS = {
    "Lambda": {"class_name": "Lambda", "config": {"function": ["4wEAAAAAAAAA", None, None]}},
    "Lambda by type": {"class_name": "Lambda", "config": {"function": {"class_name": "__lambda__", "config": {"code": "4wEA"}}}},  # noqa: E501
    "a module's function": {"module": "os", "class_name": "function", "config": "system", "registered_name": "system"},
    "a module's class": {"module": "subprocess", "class_name": "Popen", "config": {"args": ["touch", "evil"]}},
    "get_file": {"module": "keras.utils", "class_name": "get_file", "config": {"origin": "http://127.0.0.1:9/x"}},
    "unsafe deserialization": {"module": "keras.config", "class_name": "function", "config": "enable_unsafe_deserialization"},  # noqa: E501
    "TorchModuleWrapper": {"class_name": "TorchModuleWrapper", "config": {"module": "gASVJAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOU"}},  # noqa: E501
    "StringLookup": {"class_name": "StringLookup", "config": {"vocabulary": "/etc/passwd"}},
    "IntegerLookup by address": {"class_name": "IntegerLookup", "config": {"vocabulary": "http://127.0.0.1:9/v"}},
    "TextVectorization": {"class_name": "TextVectorization", "config": {"vocabulary": "/etc/shadow"}},
    "TFSMLayer": {"class_name": "TFSMLayer", "config": {"filepath": "//host/share"}},
    "JaxLayer": {"class_name": "JaxLayer", "config": {"call_fn": {"class_name": "__lambda__"}}},
    "registered class": {"class_name": "Custom", "registered_name": "pkg>Custom", "config": {}},
    "TFOpLambda": {"class_name": "TFOpLambda", "config": {"function": "io.read_file"}},
    "yaml tag": {"class_name": "!!python/object/apply:os.system", "config": {"args": ["touch evil"]}},
    "a layer named as a path": {"class_name": "Dense", "config": {"name": "../../../evil"}},
}  # fmt: skip
