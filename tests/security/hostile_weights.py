"""Hostile and broken weight files by format and kind: `hostile_files("numpy")` gives name -> (file name, bytes)."""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib

import numpy as np

from tests.security.pickle_assembler import (
    BYTES,
    GOOD,
    MAGIC,
    SYSTEM,
    VERSION,
    archive,
    hostile_pickles,
    hostile_tensors,
    legacy,
    number,
    state,
    storage,
    tensor,
)

FORMATS = ("torch zip", "torch legacy", "safetensors", "numpy")


def hostile_files(format: str) -> dict[str, tuple[str, bytes]]:
    """The files of a format."""
    make = {"torch zip": _torch_zip, "torch legacy": _torch_legacy, "safetensors": _safetensors, "numpy": _numpy}[
        format
    ]
    return make()


def good_file(format: str) -> tuple[str, bytes]:
    """A file of the format that can be read."""
    if format == "torch zip":
        return "w.pt", archive()
    if format == "torch legacy":
        return "w.pt", legacy()
    if format == "safetensors":
        return "w.safetensors", tensors({"a": entry(), "b": entry("I32", [2, 1], 8, 16)}, bytes(16))
    return "w.npz", npz({"a.npy": npy(), "b.npy": npy(np.arange(7))})


# ---------------------------------------------------------------- zip archives


def raw_zip(members: list[tuple[str, bytes]], *, edit=lambda directory: directory, end=None, sizes=None) -> bytes:
    """An archive written by hand. edit: changes the directory's bytes; sizes: (compressed, whole) by member."""
    body, directory = b"", b""
    for name, content in members:
        data = name.encode("utf-8", "surrogatepass")
        stored, whole = (sizes or {}).get(name, (len(content), len(content)))
        crc = zlib.crc32(content)
        common = struct.pack(
            "<HHHHHIIIHH", 20, 0x800, 0, 0, 33, crc, stored & 0xFFFFFFFF, whole & 0xFFFFFFFF, len(data), 0
        )
        directory += b"PK\1\2\x14\0" + common + struct.pack("<HHHII", 0, 0, 0, 0, len(body)) + data
        body += b"PK\3\4" + common + data + content
    directory = edit(directory)
    tail = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(directory), len(body), 0)
    return body + directory + (b"PK\5\6" + tail if end is None else end(directory, body))


PARTS = [("archive/data.pkl", GOOD), ("archive/data/0", BYTES), ("archive/version", b"3\n")]


def _zip_structures(parts: list[tuple[str, bytes]]) -> dict[str, bytes]:
    """Archives that are broken or lie, of any members of which the second holds an array."""
    whole, second = raw_zip(parts), parts[1][0]
    bomb = zlib.compress(bytes(200 << 20), 9)[2:-4]
    two_sizes = lambda stored, size: raw_zip(parts, sizes={second: (stored, size)})  # noqa: E731
    first_offset = struct.pack("<I", 30 + len(parts[0][0]) + len(parts[0][1]))
    return {
        "truncated in the middle": whole[: len(whole) // 2],
        "without its directory": whole[: whole.index(b"PK\1\2")],
        "without its last byte": whole[:-1],
        "a directory behind the end": whole[:-6] + struct.pack("<I", 1 << 30) + whole[-2:],
        "a directory of 4 GB": whole[:-10] + struct.pack("<I", 0xFFFFFFF0) + whole[-6:],
        "members twice": raw_zip([*parts, parts[1]]),
        "overlapping members": raw_zip(
            parts, edit=lambda d: d.replace(first_offset + second.encode(), b"\0\0\0\0" + second.encode())
        ),
        "a name with ..": raw_zip([*parts, ("../evil.npy", b"x")]),
        "an absolute name": raw_zip([*parts, ("/etc/x.npy", b"x")]),
        "a name with NUL": raw_zip([*parts, ("a\0b.npy", b"x")]),
        "a long name": raw_zip([*parts, ("a" * 5000 + ".npy", b"x")]),
        "more bytes than there are": two_sizes(1 << 20, 1 << 20),
        "other sizes": two_sizes(len(parts[1][1]), 1 << 30),
        "an offset behind the end": raw_zip(
            parts, edit=lambda d: d.replace(first_offset + second.encode(), b"\xff\xff\xff\x0f" + second.encode())
        ),
        "encrypted": raw_zip(parts, edit=lambda d: d.replace(b"\x14\0\x14\0\0\x08", b"\x14\0\x14\0\x01\x08")),
        "an unknown compression": raw_zip(
            parts, edit=lambda d: d.replace(b"\x14\0\x14\0\0\x08\0\0", b"\x14\0\x14\0\0\x08\x63\0")
        ),
        "another local name": whole.replace(second.encode(), b"x" * len(second), 1),
        "a wrong checksum": whole.replace(parts[1][1], bytes(len(parts[1][1])), 1) if any(parts[1][1]) else whole[:-1],
        "zip64 sizes that are missing": two_sizes(0xFFFFFFFF, 0xFFFFFFFF),
        "a zip64 directory that lies": raw_zip(
            parts,
            end=lambda d, b: (
                b"PK\6\6"
                + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 3, 3, 1 << 62, len(b))
                + b"PK\6\7"
                + struct.pack("<IQI", 0, len(b) + len(d), 1)
                + b"PK\5\6"
                + struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
            ),
        ),
        "a zip bomb": _deflated(parts, second, bomb, 200 << 20),
        "a bomb that lies": _deflated(parts, second, bomb, 16),
        "a million members": _many_members(parts),
        "not a zip": b"PK\3\4" + bytes(1000),
        "an empty zip": b"PK\5\6" + bytes(18),
    }


def _deflated(parts, name, content, size) -> bytes:
    changed = [(n, content if n == name else c) for n, c in parts]
    archive = raw_zip(changed, sizes={name: (len(content), size)})
    at = archive.index(b"PK\1\2", archive.index(content))
    return _set_methods(archive, name)[: len(archive)] if at else archive


def _set_methods(archive: bytes, name: str) -> bytes:
    """The archive with deflate as the method of a member, in both headers."""
    data, changed = name.encode(), bytearray(archive)
    local = archive.index(data) - 30
    central = archive.rindex(data) - 46
    changed[local + 8 : local + 10] = changed[central + 10 : central + 12] = b"\x08\0"
    return bytes(changed)


def _many_members(parts) -> bytes:
    archive = raw_zip(parts)
    entry = (
        b"PK\1\2\x14\0"
        + struct.pack("<HHHHHIIIHH", 20, 0, 0, 0, 33, 0, 0, 0, 1, 0)
        + struct.pack("<HHHII", 0, 0, 0, 0, 0)
    )
    directory = b"".join(entry + bytes([97 + i % 26]) for i in range(1_000_000))
    body = archive[: archive.index(b"PK\1\2")]
    tail = struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, len(directory), len(body), 0)
    return body + directory + b"PK\5\6" + tail


def _torch_zip() -> dict[str, tuple[str, bytes]]:
    files = {f"pickle: {name}": archive(pickle) for name, pickle in hostile_pickles().items()}
    files |= {f"tensor: {name}": archive(pickle) for name, pickle in hostile_tensors().items()}
    files |= {f"zip: {name}": content for name, content in _zip_structures(PARTS).items()}
    files |= {
        "compressed storages": archive(compression=zipfile.ZIP_DEFLATED, data={"0": bytes(16)}),
        "no storages": archive(data={}),
        "short storages": archive(data={"0": BYTES[:-1]}),
        "two pickles": archive(more={"other/data.pkl": GOOD}),
        "a torchscript program": archive(more={"archive/code/a.py": b"import os"}),
        "constants": archive(more={"archive/constants.pkl": GOOD}),
        "an unknown byte order": archive(more={"archive/byteorder": b"pdp"}),
        "a boolean of 7": archive(state(("w", tensor(kind="torch\nBoolStorage"))), {"0": b"\1\0\7\1"}),
        "a huge byte order": archive(more={"archive/byteorder": b"little" * 1000}),
    }
    return {name: ("w.pt", content) for name, content in files.items()}


def _torch_legacy() -> dict[str, tuple[str, bytes]]:
    skipped = ("a storage longer than its bytes", "a missing storage", "a storage called")
    files = {f"pickle: {name}": legacy(pickle) for name, pickle in hostile_pickles().items()}
    files |= {
        f"tensor: {name}": legacy(pickle) for name, pickle in hostile_tensors().items() if not name.startswith(skipped)
    }
    whole = legacy()
    files |= {
        f"truncated to {n} bytes": whole[:n]
        for n in (20, 60, 100, 200, len(whole) - 1, len(whole) - 16, len(whole) - 20)
    }
    view = lambda *v: b"(" + b"X\x01\0\0\0v" + b"".join(number(n) for n in v) + b"t"  # noqa: E731
    files |= {
        "protocol version 7": legacy(start=MAGIC + b"\x80\x02K\x07." + SYSTEM),
        "no version": legacy(start=MAGIC),
        "a system that calls": legacy(start=MAGIC + VERSION + b"\x80\x02cos\nsystem\n)R."),
        "another magic number": legacy(start=MAGIC[:-1] + b"0K\x07." + VERSION + SYSTEM),
        "no keys": legacy(keys=()),
        "keys twice": legacy(keys=("0", "0")),
        "another key": legacy(keys=("1",)),
        "a key more": legacy(keys=("0", "1")),
        "bytes behind": whole + b"x",
        "storage of 2 ** 62": legacy(data=struct.pack("<q", 1 << 62) + BYTES),
        "storage of -4": legacy(data=struct.pack("<q", -4) + BYTES),
        "storage of 5": legacy(data=struct.pack("<q", 5) + BYTES + bytes(4)),
        "no data": legacy(data=b""),
        "view behind the end": legacy(state(("w", tensor(view=view(1, 4))))),
        "view of -1": legacy(state(("w", tensor(view=view(-1, 4))))),
        "view of 2 ** 62": legacy(state(("w", tensor(view=view(0, 1 << 62))))),
        "view that is none": legacy(state(("w", tensor(view=b"K\x01")))),
        "tensor outside of its view": legacy(state(("w", tensor(view=view(1, 3))))),
        "keys that are numbers": MAGIC + VERSION + SYSTEM + GOOD + b"\x80\x02]K\x00a." + struct.pack("<q", 4) + BYTES,
        "keys that call": MAGIC + VERSION + SYSTEM + GOOD + b"\x80\x02cos\nsystem\n)R." + struct.pack("<q", 4) + BYTES,
        "a storage that is not known": legacy(
            b"\x80\x02](" + storage() + storage("1", kind="torch\nQInt8Storage") + b"e.", ("0", "1")
        ),
    }
    return {name: ("w.pth", content) for name, content in files.items()}


# ---------------------------------------------------------------- safetensors


def tensors(header, data: bytes = b"", length: int | None = None) -> bytes:
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(content) if length is None else length).to_bytes(8, "little") + content + data


def entry(dtype="F32", shape=(2,), begin=0, end=8) -> dict:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def _safetensors() -> dict[str, tuple[str, bytes]]:
    good, eight = entry(), bytes(8)
    many = {str(i): {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(200_000)}
    files = {
        "empty": b"",
        "seven bytes": bytes(7),
        "no header": (8).to_bytes(8, "little"),
        "an empty header": tensors(b""),
        "a header of 100 MB": tensors(b'{"a"' + b" " * 1000, length=100_000_000),
        "a header of 100 MB that is there": tensors(b"{" + b" " * 100_000_000 + b"}"),
        "a header of 2 ** 63": tensors(b"{}", length=1 << 63),
        "a header of 2 ** 64 - 1": tensors(b"{}", length=(1 << 64) - 1),
        "a header longer than the file": tensors(b'{"a":1}', length=100),
        "a list": tensors(b"[]"),
        "null": tensors(b"null"),
        "a space first": tensors(b" " + json.dumps({"a": good}).encode(), eight),
        "no JSON": tensors(b'{"a": }'),
        "JSON with more": tensors(b"{} {}"),
        "NaN": tensors(b'{"a": NaN}'),
        "not UTF-8": tensors(b'{"\xff": 1}'),
        "200,000 brackets": tensors(b'{"a":' + b"[" * 200_000),
        "200,000 braces": tensors(b'{"a":' * 200_000),
        "a name twice": tensors(
            b'{"a":' + json.dumps(good).encode() + b',"a":' + json.dumps(good).encode() + b"}", eight
        ),
        "100,000 names twice": tensors(b"{" + b",".join(b'"a":1' for _ in range(100_000)) + b"}"),
        "a field twice": tensors(b'{"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}', eight),
        "a field missing": tensors({"a": {"dtype": "F32", "shape": [2]}}, eight),
        "a field more": tensors({"a": {**good, "path": "/etc/passwd"}}, eight),
        "an entry that is a number": tensors({"a": 3}),
        "an unknown dtype": tensors({"a": entry("Q4")}, eight),
        "a dtype that is a list": tensors({"a": entry(["F32"])}, eight),
        "a dtype of 4 bits": tensors({"a": entry("F4", (4,), 0, 2)}, bytes(2)),
        "exponents": tensors({"a": entry("F8_E8M0", (8,))}, eight),
        "a shape that is a number": tensors({"a": {**good, "shape": 2}}, eight),
        "a negative length": tensors({"a": entry(shape=(-2,))}, eight),
        "a length of 2.0": tensors({"a": entry(shape=(2.0,))}, eight),
        "a length of true": tensors({"a": entry(shape=(True, 2))}, eight),
        "a length that is a text": tensors({"a": entry(shape=("2",))}, eight),
        "2 ** 60 elements": tensors({"a": entry(shape=(1 << 60,))}, eight),
        "2 ** 60 elements with such offsets": tensors({"a": entry(shape=(1 << 60,), end=1 << 62)}, eight),
        "a product of 2 ** 64": tensors({"a": entry(shape=(1 << 32, 1 << 32), end=0)}),
        "[2 ** 61, 0]": tensors({"a": entry(shape=(1 << 61, 0), end=0)}),
        "100 lengths": tensors({"a": entry(shape=(1,) * 100, end=4)}, bytes(4)),
        "an offset too many": tensors({"a": {**good, "data_offsets": [0, 8, 8]}}, eight),
        "offsets that are none": tensors({"a": {**good, "data_offsets": None}}, eight),
        "a negative offset": tensors({"a": entry(begin=-8, end=0)}, eight),
        "offsets in the other order": tensors({"a": entry(begin=8, end=0)}, eight),
        "offsets behind the end": tensors({"a": entry(begin=8, end=16)}, eight),
        "too few bytes": tensors({"a": good}, bytes(7)),
        "too many bytes": tensors({"a": good}, bytes(9)),
        "overlapping": tensors({"a": good, "b": entry(begin=4, end=12)}, bytes(12)),
        "the same range twice": tensors({"a": good, "b": good}, eight),
        "a gap": tensors({"a": good, "b": entry(begin=16, end=24)}, bytes(24)),
        "a gap at the beginning": tensors({"a": entry(begin=8, end=16)}, bytes(16)),
        "bytes without arrays": tensors({}, eight),
        "metadata that is a list": tensors({"__metadata__": [], "a": good}, eight),
        "metadata of numbers": tensors({"__metadata__": {"a": 3}}),
        "a name with ..": tensors({"../../etc/x": good}, eight),
        "no name": tensors({"": good}, eight),
        "a name with NUL": tensors({"a\0": good}, eight),
        "a name of 5,000 letters": tensors({"a" * 5000: good}, eight),
        "a name of half a character": tensors(b'{"\\ud800":' + json.dumps(good).encode() + b"}", eight),
        "an absolute name": tensors({"/etc/x": good}, eight),
        "a boolean of 7": tensors({"a": entry("BOOL", (2,), 0, 2)}, b"\1\7"),
        "200,000 names": tensors(many),
        "a large integer": tensors(b'{"a": ' + b"9" * 100_000 + b"}"),
        "a large float": tensors(b'{"a": 1e999}'),
    }
    return {name: ("w.safetensors", content) for name, content in files.items()}


# ---------------------------------------------------------------- NumPy


def npy(
    array=None, header: str | None = None, version=(1, 0), data: bytes = bytes(16), length: int | None = None
) -> bytes:
    """An ``.npy`` file of an array, or of a header of one's own."""
    if header is None:
        file = io.BytesIO()
        np.save(file, np.arange(4.0) if array is None else array)
        return file.getvalue()
    content = header.encode("latin-1") + b"\n"
    size = struct.pack("<H" if version == (1, 0) else "<I", len(content) if length is None else length)
    return b"\x93NUMPY" + bytes(version) + size + content + data


def npz(members: dict[str, bytes], compression=zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as writer:
        for name, content in members.items():
            writer.writestr(name, content)
    return file.getvalue()


def described(descr="'<f4'", shape="(4,)", order="False", more="") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, {more}}}"


def _headers() -> dict[str, bytes]:
    texts = {
        "objects": described("'|O'"),
        "records": described("[('a', '<f4')]"),
        "texts": described("'<U4'"),
        "bytes": described("'|S4'"),
        "dates": described("'<M8[s]'"),
        "long doubles": described("'<f16'"),
        "a void": described("'|V4'"),
        "a call": described("__import__('os')"),
        "a call as shape": described(shape="(print(1),)"),
        "2 ** 60 elements": described(shape=f"({1 << 60},)"),
        "a negative length": described(shape="(-4,)"),
        "a shape that is a number": described(shape="4"),
        "a length of 2.0": described(shape="(2.0, 2)"),
        "[2 ** 62, 0]": described(shape=f"({1 << 62}, 0)"),
        "40 lengths": described(shape="(" + "1, " * 40 + ")"),
        "too many elements": described(shape="(5,)"),
        "too few elements": described(shape="(3,)"),
        "a field more": described(more="'x': 1"),
        "no dictionary": "[1, 2]",
        "nothing": "",
        "deep brackets": "(" * 5000,
        "deep minus": "-" * 5000 + "1",
        "an unknown dtype": described("'<x4'"),
        "an order that is none": described(order="7"),
        "a dtype that is a number": described("4"),
        "a sub-array": described("('<f4', (2,))"),
        "a boolean of 7": described("'|b1'", "(16,)"),
        "a power": described(shape="(9**9**9,)"),
    }
    made = {name: npy(header=text, data=b"\7" * 16) for name, text in texts.items()}
    return made | {
        "version 9": npy(header=described(), version=(9, 0)),
        "a header of 4 GB": npy(header=described(), version=(2, 0), length=0xFFFFFFF0),
        "a header of 1 MB": npy(header=described() + " " * 1_000_000, version=(2, 0)),
        "a header behind the end": npy(header=described(), length=60_000),
        "the signature alone": b"\x93NUMPY",
        "no version": b"\x93NUMPY\x01",
        "truncated": npy()[:-1],
        "bytes behind": npy() + b"x",
    }


def _numpy() -> dict[str, tuple[str, bytes]]:
    files = {f"npy: {name}": ("w.npy", content) for name, content in _headers().items()}
    for name, content in _headers().items():
        files[f"npz: {name}"] = ("w.npz", npz({"good.npy": npy(), "bad.npy": content}))
    files |= {
        f"zip: {name}": ("w.npz", content)
        for name, content in _zip_structures([("a.npy", npy()), ("b.npy", npy())]).items()
    }
    zeros = npy(np.zeros(1))[:-8].replace(b"(1,)", b"(39321600,)").replace(b" " * 7 + b"\n", b"\n")
    files |= {
        "compressed: objects": ("w.npz", npz({"a.npy": npy(header=described("'|O'"))}, zipfile.ZIP_DEFLATED)),
        "compressed: too many elements": (
            "w.npz",
            npz({"a.npy": npy(header=described(shape="(5,)"))}, zipfile.ZIP_DEFLATED),
        ),
        "compressed: 300 MB of zeros": ("w.npz", npz({"a.npy": zeros + bytes(39321600 * 8)}, zipfile.ZIP_DEFLATED)),
        "a member that is no array": ("w.npz", npz({"a.npy": npy(), "b.txt": b"x"})),
        "a pickle as member": ("w.npz", npz({"a.npy": npy(), "b.npy": GOOD})),
        "a name in a folder above": ("w.npz", npz({"../a.npy": npy()})),
    }
    return files
