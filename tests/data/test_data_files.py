"""IDX, npy/npz and CSV files: good ones, damaged ones, hostile ones. Each refusal names the file and the reason."""

import contextlib
import gzip
import io
import os
import struct
import zipfile
import zlib

import numpy as np
import pytest

from prototorch.data.csv_reader import read_csv
from prototorch.data.idx import decode_idx, encode_idx, read_idx
from prototorch.data.npz import read_npy, read_npz
from prototorch.data.safe_io import printable_path, read_file
from prototorch.errors import DataError, ResourceError

IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


# ---------------------------------------------------------------- files


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    for name, words in [
        ("pipe", "is a pipe"),
        ("zero", "is a device"),
        ("", "is a folder"),
        ("gone", "No such file"),
        ("missing", "No such file"),
    ]:
        with pytest.raises(DataError, match=words):
            read_file(tmp_path / name)
    with pytest.raises(DataError, match="cannot be opened"):
        read_file("a\0b")


def test_a_file_may_not_be_longer_than_allowed(tmp_path):
    path = tmp_path / "long"
    path.write_bytes(b"12345")
    assert read_file(path, 5) == b"12345"
    with pytest.raises(DataError, match="has 5 bytes, the limit is 4"):
        read_file(path, 4)


def test_a_sparse_giant_is_refused_before_memory_is_taken(tmp_path):
    path = tmp_path / "giant"
    with open(path, "wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(ResourceError, match="GiB"):
        read_file(path)


def test_names_that_cannot_be_printed_are_escaped():
    assert printable_path(b"caf\xff\n.png") == "caf\\xff\\n.png"


# ---------------------------------------------------------------- IDX


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "float32", "float64"])
@pytest.mark.parametrize("zipped", [False, True])
def test_idx_round_trip(tmp_path, dtype, zipped):
    array = (np.arange(24).reshape(2, 3, 4) - 5).astype(dtype)
    data = encode_idx(array)
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(data, mtime=0) if zipped else data)
    back = read_idx(path)
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)
    assert not back.flags.writeable


def test_idx_empty_array():
    assert decode_idx(encode_idx(np.zeros((0, 28, 28), np.uint8)), "x").shape == (0, 28, 28)


def _idx_head(*sizes, code=8):
    return bytes([0, 0, code, len(sizes)]) + b"".join(struct.pack(">I", s) for s in sizes)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not an IDX file"),
        (b"\0\0", "not an IDX file"),
        (b"\x89PNG\r\n", "not an IDX file"),
        (b"\0\0\x07\1\0\0\0\0", "not an IDX file"),
        (b"\0\0\x08\0", "not an IDX file"),
        (b"\0\0\x08\x09" + b"\0" * 99, "not an IDX file"),
        (b"\0\0\x08\3\0\0\0\1", "truncated inside its header"),
        (encode_idx(IMAGES)[:-1], "truncated: shape"),
        (encode_idx(IMAGES) + b"!", "too long"),
        (_idx_head(2**32 - 1, 2**32 - 1, 2**32 - 1), "truncated"),
        (gzip.compress(_idx_head(2**32 - 1, 2**32 - 1), mtime=0), "can expand to"),
        (gzip.compress(encode_idx(IMAGES), mtime=0)[:-9], "truncated|no end"),
        (gzip.compress(encode_idx(IMAGES), mtime=0)[:-1], "stream is truncated"),
        (gzip.compress(encode_idx(IMAGES), mtime=0) + b"!", "follow the end"),
        (gzip.compress(encode_idx(IMAGES), mtime=0) * 2, "follow the end"),
        (gzip.compress(encode_idx(IMAGES)[:-1], mtime=0), "truncated"),
        (gzip.compress(encode_idx(IMAGES) + b"!", mtime=0), "more than"),
        (gzip.compress(encode_idx(IMAGES)[:5], mtime=0), "truncated inside its header"),
        (gzip.compress(encode_idx(IMAGES) + bytes(1 << 24), mtime=0), "more than"),
        (b"\x1f\x8b" + b"?" * 40, "damaged gzip"),
        (b"\x1f\x8b", "not an IDX file"),
    ],
)
def test_bad_idx(data, words):
    with pytest.raises(DataError, match=f"some.gz: .*({words})"):
        decode_idx(data, "some.gz")


def test_idx_gzip_checksum():
    data = bytearray(gzip.compress(encode_idx(IMAGES), mtime=0))
    data[-8] ^= 1
    with pytest.raises(DataError, match="damaged gzip"):
        decode_idx(data, "x")


def test_idx_bytes_flipped_anywhere_raise_only_data_errors():
    rng = np.random.default_rng(0)
    for good in (encode_idx(IMAGES), gzip.compress(encode_idx(IMAGES), mtime=0)):
        for _ in range(300):
            data = bytearray(good)
            data[rng.integers(len(data))] = rng.integers(256)
            data = data[: rng.integers(len(data) + 1)] if rng.random() < 0.3 else data
            with contextlib.suppress(DataError, ResourceError):
                decode_idx(data, "x")


# ---------------------------------------------------------------- npy, npz


def _npy(array, **kwargs):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, **kwargs)
    return file.getvalue()


def _zip(members, method=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, method)  # a ZipInfo has a fixed date
    return file.getvalue()


def _written(tmp_path, data):
    path = tmp_path / "file"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("compressed", [False, True])
def test_npz_round_trip(tmp_path, compressed):
    arrays = {
        "a": np.arange(6.0).reshape(2, 3),
        "b": np.asfortranarray(np.arange(6, dtype=">i2").reshape(2, 3)),
        "c": np.array([True, False]),
        "d": np.float32(3),
        "e": np.zeros((0, 5), np.uint8),
    }
    path = tmp_path / "x.npz"
    (np.savez_compressed if compressed else np.savez)(path, **arrays)
    back = read_npz(path)
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].shape == array.shape
        assert back[name].dtype.isnative


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_versions(tmp_path, version):
    np.testing.assert_array_equal(read_npy(_written(tmp_path, _npy(IMAGES, version=version))), IMAGES)


_GOOD = _npy(IMAGES)
_HEADER = "{'descr': '|u1', 'fortran_order': False, 'shape': %s, }"


def _npy_with(header, data=b""):
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + data


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (_GOOD[:-1], "truncated"),
        (_GOOD + b"!", "too long"),
        (_GOOD[:5], "not an .npy"),
        (_GOOD[:40], "damaged header"),
        (b"\x93NUMPY\x09\0" + _GOOD[8:], "version 9.0"),
        (b"\x93NUMPY\2\0" + struct.pack("<I", 2**31) + b"x", "damaged header"),
        (_npy_with(_HEADER % "(1000000, 1000000)"), "truncated"),
        (_npy_with(_HEADER % "(-1,)"), "impossible shape|truncated"),
        (_npy_with(_HEADER % "('a',)"), "damaged header"),
        (_npy_with(_HEADER % "(2.5,)"), "damaged header"),
        (_npy_with("__import__('os').system('x')"), "damaged header"),
        (_npy_with("{"), "damaged header"),
        (_npy_with("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"\x80\4."), "Python objects"),
        (_npy_with("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", b"1234"), "not numbers"),
        (_npy_with("{'descr': '<U4', 'fortran_order': False, 'shape': (1,), }", b"1" * 16), "not numbers"),
        (_npy_with("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", b"1" * 8), "not numbers"),
        (_npy_with("{'descr': '<M8[s]', 'fortran_order': False, 'shape': (1,), }", b"1" * 8), "not numbers"),
        (_npy(np.array([{"a": 1}], object)), "Python objects"),
    ],
)
def test_bad_npy(tmp_path, data, words):
    with pytest.raises(DataError, match=words):
        read_npy(_written(tmp_path, data))
    if not words.startswith("not an"):
        with pytest.raises(DataError, match=words):
            read_npz(_written(tmp_path, _zip([("x.npy", data)])))


def _lying_zip(size):
    """A zip whose directory promises another size than its member has."""
    data = bytearray(_zip([("x.npy", _GOOD)]))
    at = data.find(b"PK\1\2")
    data[at + 24 : at + 28] = struct.pack("<I", size)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (_zip([]), "has no arrays"),
        (_zip([("x.txt", b"hello")]), "expected only .npy arrays"),
        (_zip([("x.npy", b"hello")]), "not an .npy"),
        (_zip([(f"{i}.npy", _GOOD) for i in range(1001)], zipfile.ZIP_STORED), "1,001 members"),
        (_zip([("x.npy", _GOOD)], zipfile.ZIP_BZIP2), "compression method 12 is not supported"),
        (_zip([("x.npy", _GOOD)])[:-30], "damaged npz"),
        (_zip([("x.npy", _GOOD)])[:30], "damaged npz"),
        (_lying_zip(2**31), "cannot expand to"),
        (_lying_zip(len(_GOOD) - 1), "truncated"),
        (_lying_zip(len(_GOOD) + 1), "damaged npz"),
        (_zip([("x.npy", _GOOD + bytes(1 << 20))]), "too long"),
        (b"PK\3\4", "damaged npz"),
    ],
)
def test_bad_npz(tmp_path, data, words):
    with pytest.raises(DataError, match=words):
        read_npz(_written(tmp_path, data))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_npz_duplicate_and_overlapping_members(tmp_path):
    with pytest.raises(DataError, match="occurs twice"):
        read_npz(_written(tmp_path, _zip([("x.npy", _GOOD), ("x.npy", _GOOD)])))
    # two directory entries that share one member's bytes: the trick behind small archives that inflate to a lot
    data = _zip([("a.npy", _npy(np.random.default_rng(0).integers(0, 255, 4000, np.uint8)))])
    at, end = data.find(b"PK\1\2"), data.find(b"PK\5\6")
    entry = data[at:end]
    tail = bytearray(data[end:])
    tail[8:12] = struct.pack("<HH", 2, 2)
    tail[12:16] = struct.pack("<I", 2 * len(entry))
    with pytest.raises(DataError, match=r"overlap|damaged"):
        read_npz(_written(tmp_path, data[:at] + entry + entry.replace(b"a.npy", b"b.npy") + bytes(tail)))


def test_npz_bytes_changed_anywhere_raise_only_data_errors(tmp_path):
    rng = np.random.default_rng(1)
    good = _zip([("x.npy", _GOOD), ("y.npy", _npy(np.arange(5.0)))])
    for _ in range(400):
        data = bytearray(good)
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(len(data))] = rng.integers(256)
        with contextlib.suppress(DataError, ResourceError):
            read_npz(_written(tmp_path, data))


def test_npz_wrong_checksum(tmp_path):
    data = bytearray(_zip([("x.npy", _GOOD)], zipfile.ZIP_STORED))
    data[data.find(_GOOD) + len(_GOOD) - 1] ^= 1
    with pytest.raises(DataError, match="CRC"):
        read_npz(_written(tmp_path, data))
    assert zlib.crc32(_GOOD)


# ---------------------------------------------------------------- CSV


def _csv(tmp_path, text, **kwargs):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_csv(path, **kwargs)


def _all(dataset):
    return dataset.read(np.arange(len(dataset)))


def test_csv_plain(tmp_path):
    data = _csv(tmp_path, "1,2,0\n3,4.5,1\n")
    got = _all(data)
    np.testing.assert_array_equal(got["x"], np.array([[1, 2], [3, 4.5]], np.float32))
    np.testing.assert_array_equal(got["y"], [0, 1])
    assert got["y"].dtype == np.int64
    assert data.origin(1).endswith("t.csv, line 2")


def test_csv_header_label_by_name_and_class_names(tmp_path):
    data = _csv(tmp_path, "kind;a;b\r\ncat;1;2\r\n\r\ndog;3;4\r\ncat;5;6\r\n", label="kind")
    got = _all(data)
    np.testing.assert_array_equal(got["x"], np.array([[1, 2], [3, 4], [5, 6]], np.float32))
    np.testing.assert_array_equal(got["kind"], [0, 1, 0])
    assert data.classes == {"kind": ("cat", "dog")}
    assert data.targets == ("kind",)


def test_csv_header_found_features_and_real_target(tmp_path):
    data = _csv(tmp_path, '\ufeffa\tb\t"the price"\n1\t2\t3.5\n4\t5\t6\n', features=["b"])
    got = _all(data)
    np.testing.assert_array_equal(got["x"], [[2], [5]])
    np.testing.assert_array_equal(got["the price"], np.float32([3.5, 6]))


def test_csv_label_first_and_several_targets(tmp_path):
    assert _all(_csv(tmp_path, "7,1,2\n8,3,4\n", label=0))["y"].tolist() == [7, 8]
    got = _all(_csv(tmp_path, "a,b,c\n1,2,3\n4,5,6\n", label=["b", "c"]))
    assert got["y"].tolist() == [[2, 3], [5, 6]]
    assert got["x"].tolist() == [[1], [4]]


def test_csv_given_classes_order(tmp_path):
    data = _csv(tmp_path, "1,dog\n2,cat\n", classes=["dog", "cat"])
    assert _all(data)["y"].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "kwargs", "words"),
    [
        ("", {}, "is empty"),
        ("\n\n", {}, "is empty"),
        ("a,b\n", {"label": "b"}, "has no rows"),
        ("1,2,3\n4,5\n", {}, "line 2: has 2 fields, expected 3 as in the lines before it"),
        ("1,2\n3,4,5\n", {}, "line 2: has 3 fields"),
        ("a,b,y\n1,2,0\n1,x7,0\n", {}, r"line 3, column 'b': expected a number, got text of 2 characters"),
        ("1,,0\n", {}, r"line 1, column '1': expected a number, got an empty cell"),
        ("1,1_000,0\n", {}, "expected a number, got text of 5 characters"),
        ("a,b\n1,2\n", {"label": "prise"}, "no column 'prise'"),
        ("price,b\n1,2\n", {"label": "prise"}, "Did you mean 'price'"),
        ("1,2\n", {"label": 2}, "there is no index 2"),
        ("1,2\n", {"label": -3}, "there is no index -3"),
        ("1\n2\n", {}, "no columns except the target"),
        ("a,a\n1,2\n", {"label": "a"}, "the columns 1 and 2 have one name"),
        ('1,"2\n3,4\n', {}, "line"),
        ("1,2\n\xff\0,2\n", {}, "NUL"),
        (b"1,2\n\xff,2\n", {}, "not UTF-8 text .byte 4"),
        (
            "1,dog\n2,cow\n",
            {"classes": ["dog", "cat"]},
            "line 2, column '1': expected one of the classes dog, cat, got text of 3 characters",
        ),
        ("1,dog\n2,\n", {}, "line 2, column '1': the target is missing"),
        ("1," + "9" * 5000 + ",0\n", {}, "expected a number, got text of 5,000 characters"),
        ("1," + "9" * 200_000 + ",0\n", {}, "field larger"),
    ],
)
def test_bad_csv(tmp_path, text, kwargs, words):
    with pytest.raises(DataError, match=words):
        _csv(tmp_path, text, **kwargs)
