"""The container: what goes in comes out, others can read it, and no damage passes."""

import contextlib
import hashlib
import os
import random
import re

import h5py
import numpy as np
import pytest

from prototorch.engine.storage import container, hdf5_decoder, hdf5_encoder
from prototorch.engine.storage.container import is_container, peek, read, verify, write
from prototorch.errors import ModelFileError, SnapshotError, UsageError

RNG = np.random.default_rng(7)
TYPES = hdf5_encoder.DTYPES


def sample():
    arrays = {
        f"stage{i}/conv{j}/{name}": RNG.standard_normal(shape).astype("float32")
        for i in range(3)
        for j in range(40)
        for name, shape in (("kernel", (4, 3, 3, 3)), ("bias", (4,)))
    }
    for dtype in TYPES:
        arrays[f"types/{dtype}"] = RNG.integers(0, 2, (3, 2)).astype(dtype)
        arrays[f"empty/{dtype}"] = np.zeros((2, 0, 3), dtype)
        arrays[f"scalar/{dtype}"] = np.array(1).astype(dtype)
    arrays["ünï/x y"] = np.arange(12.0).reshape(3, 4)
    meta = {
        "text": "a line\n" * 20_000,
        "empty": "",
        "steps": 3,
        "rate": 1e-3,
        "done": True,
        "low": -(2**63),
        "pi": "π",
    }
    return arrays, meta


def equal(left, right):
    assert left.keys() == right.keys()
    for name, array in left.items():
        other = right[name]
        assert array.dtype == other.dtype, name
        assert array.shape == other.shape, name
        np.testing.assert_array_equal(array, other, err_msg=name)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "weights.h5"
    arrays = {"dense/kernel": RNG.standard_normal((20, 30)).astype("float32"), "dense/bias": np.zeros(30, "float32")}
    write(path, arrays, {"model": "Dense { units: 30 }", "step": 12})
    return path


def test_round_trip(tmp_path):
    arrays, meta = sample()
    digest = write(tmp_path / "f.h5", arrays, meta)
    found = read(tmp_path / "f.h5")
    equal(arrays, found.arrays)
    assert found.meta == meta
    assert {name: type(value) for name, value in found.meta.items()} == {n: type(v) for n, v in meta.items()}
    assert found.digest == digest == verify(tmp_path / "f.h5")
    found.arrays["types/float32"][0, 0] = 9  # what is read can be written to
    outline = peek(tmp_path / "f.h5")
    assert outline.meta == meta
    assert {n: (s.shape, s.dtype) for n, s in outline.specs.items()} == {
        n: (a.shape, a.dtype.name) for n, a in arrays.items()
    }
    assert outline.size == os.path.getsize(tmp_path / "f.h5")


def test_nothing_at_all(tmp_path):
    write(tmp_path / "f.h5", {})
    assert read(tmp_path / "f.h5") == container.ContainerContents({}, {})


def test_others_read_it_as_ordinary_hdf5(tmp_path):
    arrays, meta = sample()
    write(tmp_path / "f.h5", arrays, meta)
    with h5py.File(tmp_path / "f.h5", "r") as file:
        assert file.userblock_size == 512
        assert file.attrs["prototorch_format"] == 1
        equal(arrays, {name: file[name][()] if file[name].shape else np.asarray(file[name][()]) for name in arrays})
        assert file["@meta/pi"].asstr()[()] == "π"
        assert file["@meta/steps"][()] == 3
        kernel = file["stage0/conv0/kernel"]
        assert kernel.chunks is None
        assert kernel.compression is None
        assert kernel.id.get_offset() % 4 == 0


def test_the_digest_can_be_checked_by_hand(saved):
    data = saved.read_bytes()
    expected = re.match(rb"prototorch 1 sha256=([0-9a-f]{64}) bytes=(\d+)\n", data)
    assert expected[1].decode() == hashlib.sha256(data[512:]).hexdigest()
    assert int(expected[2]) == len(data)


def test_the_same_content_gives_the_same_bytes(tmp_path):
    arrays, meta = sample()
    assert write(tmp_path / "a.h5", arrays, meta) == write(tmp_path / "b.h5", arrays, meta)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_other_memory_layouts_are_kept_plain(tmp_path):
    array = np.arange(24, dtype="float32").reshape(2, 3, 4)
    arrays = {"t": array.T, "s": array[:, ::2], "n": array[..., ::-1], "b": array.astype(">f4")}
    write(tmp_path / "f.h5", arrays)
    found = read(tmp_path / "f.h5").arrays
    for name, given in arrays.items():
        np.testing.assert_array_equal(found[name], given)
        assert found[name].flags.c_contiguous
        assert found[name].dtype.isnative


def test_large_arrays_and_many_entries(tmp_path):
    """Several levels of HDF5's group tree."""
    arrays = {f"layer{i}/w": np.full((100 + i,), i, "int32") for i in range(3000)}
    arrays["big"] = RNG.standard_normal(1 << 19)
    write(tmp_path / "f.h5", arrays)
    equal(arrays, read(tmp_path / "f.h5").arrays)


@pytest.mark.slow
def test_a_file_beyond_two_gigabytes(tmp_path):
    arrays = {"big": np.arange((1 << 29) + 1000, dtype="float32"), "after": np.arange(5)}
    write(tmp_path / "f.h5", arrays)
    equal(arrays, read(tmp_path / "f.h5").arrays)


@pytest.mark.parametrize(
    ("arrays", "meta", "words"),
    [
        ({"": 1}, {}, "empty part"),
        ({"a//b": 1}, {}, "empty part"),
        ({"/a": 1}, {}, "empty part"),
        ({"a/": 1}, {}, "empty part"),
        ({"a/../b": 1}, {}, "'..'"),
        ({".": 1}, {}, r"part '\.'"),
        ({"a\nb": 1}, {}, r"U\+000A"),
        ({"a\0b": 1}, {}, r"U\+0000"),
        ({"a\u202eb": 1}, {}, r"U\+202E"),
        ({"a\ud800b": 1}, {}, r"U\+D800"),
        ({"x" * 256: 1}, {}, "256 characters"),
        ({"a/" * 64 + "b": 1}, {}, "65 parts"),
        ({"y/" * 2048 + "b": 1}, {}, "4,097 characters"),
        ({"a": 1, "a/b": 1}, {}, "cannot be an array and contain"),
        ({"@meta/a": 1}, {}, "reserved for scalars"),
        ({"a": 1j}, {}, "complex128 cannot be stored"),
        ({"a": "text"}, {}, "cannot be stored"),
        ({"a": None}, {}, "object cannot be stored"),
        ({"a": np.zeros(2, "datetime64[s]")}, {}, "datetime64.* cannot be stored"),
        ({}, {"a/b": 1}, "contains a '/'"),
        ({}, {"..": 1}, "'..'"),
        ({}, {"a": "x\0y"}, "NUL"),
        ({}, {"a": "\ud800"}, "surrogate"),
        ({}, {"a": 2**63}, "64 bits"),
        ({}, {"a": [1]}, "expected str, bool, int"),
        ({}, {"a": None}, "expected str, bool, int"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_anything_is_written(tmp_path, arrays, meta, words):
    with pytest.raises(UsageError, match=words):
        write(tmp_path / "f.h5", {name: np.asarray(value) for name, value in arrays.items()}, meta)
    assert os.listdir(tmp_path) == []


def flips(size, count):
    """Every byte of the header, then random places."""
    places = list(range(110)) + random.Random(3).sample(range(110, size), count)
    return [(place, 1 << random.Random(place).randrange(8)) for place in places]


@pytest.mark.parametrize("count", [200, pytest.param(None, marks=pytest.mark.slow)])
def test_one_flipped_bit_is_found(saved, count):
    good = saved.read_bytes()
    for place, bit in flips(len(good), count or len(good) - 110):
        bad = bytearray(good)
        bad[place] ^= bit
        saved.write_bytes(bad)
        with pytest.raises(ModelFileError, match=r"expected .* found"):
            read(saved)
        with pytest.raises(ModelFileError, match=r"expected .* found"):
            verify(saved)
        assert is_container(saved)
    saved.write_bytes(good)
    read(saved)


@pytest.mark.parametrize("size", [0, 1, 10, 11, 64, 511, 512, 513, 600, 2048, 4096, 6143, -4096, -1, "more"])
def test_a_wrong_length_is_found(saved, size):
    good = saved.read_bytes()
    bad = good + b"\0" if size == "more" else good[:size]
    saved.write_bytes(bad)
    for look in (read, verify, peek):
        with pytest.raises(ModelFileError, match=r"expected .*found") as caught:
            look(saved)
        if len(bad) > 150:
            assert f"expected {len(good):,} bytes, found {len(bad):,}" in str(caught.value)


def test_files_of_another_kind(tmp_path, saved):
    (tmp_path / "text").write_text("layer { }")
    (tmp_path / "sub").mkdir()
    os.mkfifo(tmp_path / "fifo")
    with h5py.File(tmp_path / "foreign", "w") as file:
        file["a"] = 1
    for name, words in {
        "text": "expected a file of prototorch .*found another file",
        "foreign": "expected a file of prototorch .*found another file",
        "sub": "found a folder",
        "fifo": "found a device or pipe",
        "none": "No such file",
        "nul\0": "null",
    }.items():
        with pytest.raises(ModelFileError, match=words):
            read(tmp_path / name)


def test_a_newer_format_says_so(saved):
    data = saved.read_bytes()
    saved.write_bytes(data.replace(b"prototorch 1 ", b"prototorch 2 ", 1))
    with pytest.raises(ModelFileError, match="expected format version 1 or lower, found 2"):
        read(saved)


def test_a_write_that_goes_wrong_on_the_disk_is_found_before_it_counts(saved, monkeypatch):
    """Bits that change on the way to the disk: the temporary file is verified, the old one stays."""
    good = saved.read_bytes()
    true_digest = container.sha256_hexdigest
    monkeypatch.setattr(container, "sha256_hexdigest", lambda pieces: true_digest([b"other"]))
    with pytest.raises(SnapshotError, match=r"expected sha256 .* found .*the old content is intact"):
        write(saved, {"a": np.ones(3)})
    assert saved.read_bytes() == good


def reseal(path, data):
    """Give changed content a right header, as whoever makes a hostile file would."""
    body = data[512:]
    header = container._make_header(hashlib.sha256(body).hexdigest(), 512 + len(body))
    path.write_bytes(header + body)


def read_or_refuse(path):
    try:
        found = read(path)
    except ModelFileError:
        return 0
    assert sum(a.nbytes for a in found.arrays.values()) <= os.path.getsize(path)
    return 1


@pytest.mark.parametrize("count", [400, pytest.param(40_000, marks=pytest.mark.slow)])
def test_resealed_mutations_are_read_or_refused(saved, count):
    """A digest is no signature: under a right one too, only ModelFileError, and never more bytes than the file has."""
    good = saved.read_bytes()
    dice = random.Random(count)
    words = [b"\xff" * 8, b"\0" * 8, (2**62).to_bytes(8, "little"), b"\x60" + b"\0" * 7]
    outcomes = [0, 0]
    structure = [i for i in range(512, len(good)) if good[i] or i < 4096]
    for _ in range(count):
        bad = bytearray(good)
        for _ in range(dice.randint(1, 4)):
            place = dice.choice(structure)
            if dice.random() < 0.6:
                bad[place] = dice.randrange(256)
            else:
                word = dice.choice(words)
                place &= ~7
                bad[place : place + 8] = word
        if dice.random() < 0.1:
            del bad[dice.randrange(520, len(bad)) :]
        reseal(saved, bytes(bad))
        outcomes[read_or_refuse(saved)] += 1
        with contextlib.suppress(ModelFileError):
            peek(saved)
    assert outcomes[0] > count // 5  # mutations do hit structures


@pytest.mark.parametrize("shift", [-24, -8, 0, 8, 24])
def test_arrays_that_share_bytes_are_refused(tmp_path, shift):
    """A small file could otherwise declare any number of arrays, each of the file's size."""
    path = tmp_path / "two.h5"
    write(path, {"a": np.arange(4.0), "b": np.arange(4.0) + 100})
    entries = {name: entry for name, entry in _entries(path).items() if name in "ab"}
    first, second = sorted(entry.offset for entry in entries.values())
    data = bytearray(path.read_bytes())
    old, new = ((offset - 512).to_bytes(8, "little") for offset in (second, first + shift))
    assert data.count(old) == 1
    reseal(path, bytes(data.replace(old, new)))
    with pytest.raises(ModelFileError, match="overlap"):
        read(path)
    with pytest.raises(ModelFileError, match="overlap"):
        peek(path)
    reseal(path, bytes(data))
    assert read(path).arrays.keys() == {"a", "b"}


def _entries(path):
    data = path.read_bytes()
    return hdf5_decoder.read_entries(lambda offset, count: data[offset : offset + count], len(data), 512)


def test_resealed_files_of_other_shapes_are_refused(tmp_path, saved):
    """Links, filters, strange types: outside the subset, whatever the digest says."""
    path = tmp_path / "f.h5"

    def make(build):
        with h5py.File(path, "w", libver=("earliest", "v108"), userblock_size=512) as file:
            build(file)
        reseal(path, path.read_bytes())

    def loop(file):
        file["g"] = file["/"]

    def shared(file):
        file["a"] = 1.0
        file["b"] = file["a"]

    def named(file):
        file["t"] = np.dtype("f4")
        file.create_dataset("a", data=np.ones(3), dtype=file["t"])

    for build, words in {
        lambda f: f.__setitem__("a", h5py.SoftLink("/b")): "soft link",
        lambda f: f.__setitem__("a", h5py.ExternalLink("x", "y")): "header message",
        lambda f: f.create_dataset("a", data=np.ones(9), chunks=(3,)): "header message|not contiguous",
        lambda f: f.create_dataset("a", shape=(3,), external=[("/etc/passwd", 0, 24)], dtype="f8"): "message|contig",
        lambda f: f.create_dataset("a", data=np.ones(3, "c8")): "element type",
        lambda f: f.create_dataset("a", data="text", dtype=h5py.string_dtype()): "element type",
        lambda f: f.create_dataset("a", shape=(3,), dtype="f4"): "0 stored|not within",
        lambda f: f.__setitem__("a", np.array([1.0], ">f4")): "element type",
        lambda f: f.__setitem__("a", h5py.Empty("f4")): "dataspace|declared",
        loop: "used twice",
        shared: "used twice|overlap",
        named: "shared|neither|message",
    }.items():
        make(build)
        with pytest.raises(ModelFileError, match=words):
            read(path)
    make(lambda f: f.__setitem__("a", np.ones(3)))  # an honest one is read
    np.testing.assert_array_equal(read(path).arrays["a"], np.ones(3))


def test_the_type_table_is_hdf5s_own():
    """Each encoding that the reader knows is byte for byte what the library writes."""
    for dtype in TYPES:
        encoded = h5py.h5t.py_create(np.dtype(dtype).newbyteorder("<"), logical=True).encode()
        assert hdf5_decoder._TYPES[encoded[2:]] == (
            dtype,
            np.dtype(dtype).itemsize,
        )  # after a version byte and a type code


def test_bad_booleans(tmp_path):
    path = tmp_path / "f.h5"
    write(path, {"a": np.ones(3000, bool)})
    data = path.read_bytes()
    reseal(path, data.replace(b"\1" * 3000, b"\1" * 2999 + b"\2"))
    with pytest.raises(ModelFileError, match="neither 0 nor 1"):
        read(path)
