"""HDF5 from elsewhere: honest files are read, hostile ones refused, and nothing harms this process."""

import json
import os
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import types

import h5py
import numpy as np
import pytest

from prototorch.engine.storage import foreign_hdf5, hdf5_attributes, hdf5_filters, hdf5_sandbox, hdf5_validator
from prototorch.engine.storage.foreign_hdf5 import map_datasets, read_dataset_specs, read_datasets, read_tree
from prototorch.errors import ModelFileError
from tests.engine.storage.forked_reader import ForkedReader
from tests.engine.storage.hostile_hdf5 import KINDS

RNG = np.random.default_rng(11)
BUDGET = 1_000_000


@pytest.fixture
def warm(monkeypatch):
    monkeypatch.setattr(foreign_hdf5, "_start_process", ForkedReader)


def honest(path, libver=("earliest", "v108")):
    arrays = {
        "dense/kernel": RNG.standard_normal((30, 40)).astype("f4"),
        "dense/bias": RNG.standard_normal(40),
        "half": np.arange(5, dtype="f2"),
        "big": RNG.integers(-9, 9, (4, 3)).astype(">i4"),
        "bigfloat": np.arange(6, dtype=">f8"),
        "flags": np.array([[True, False], [False, True]]),
        "scalar": np.array(7, "u2"),
        "none": np.zeros((0, 3), "f4"),
    }
    chunked = {
        "c/plain": (RNG.integers(0, 99, (7, 5, 3)), {"chunks": (2, 2, 2)}),
        "c/gzip": (RNG.integers(0, 9, (50, 60)).astype("f4"), {"chunks": (13, 60), "compression": "gzip"}),
        "c/all": (
            RNG.integers(0, 9, (50, 60)).astype("f8"),
            {"chunks": (20, 25), "compression": "gzip", "shuffle": True, "fletcher32": True},
        ),
        "c/odd": (np.arange(7, dtype="u1"), {"chunks": (3,), "fletcher32": True, "shuffle": True}),
        "c/bool": (RNG.integers(0, 2, 100).astype(bool), {"chunks": (30,), "compression": "gzip"}),
        "c/zero": (np.zeros(40_000, "i8"), {"chunks": (9000,), "fletcher32": True}),
    }
    with h5py.File(path, "w", libver=libver) as file:
        for name, array in arrays.items():
            file[name] = array
        for name, (array, options) in chunked.items():
            file.create_dataset(name, data=array, **options)
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        made = h5py.h5d.create(file.id, b"compact", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((5,)), compact)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(5, dtype="f4"))
        file.attrs["layer_names"] = [b"dense", b"other"]
        file.attrs["config"] = '{"a": "é"}'
        file["dense"].attrs["weights"] = np.array(["kernel", "bias"], dtype=object)
        file["dense"].attrs["units"] = 40
        file["dense/kernel"].attrs["range"] = np.array([0.5, 1.5], "f4")
        file["dense/kernel"].attrs["yes"] = True
        file["dense/kernel"].attrs["odd"] = file.ref  # passed over
        file["dense/kernel"].attrs["void"] = h5py.Empty("f4")  # passed over
    arrays |= {name: array for name, (array, _) in chunked.items()} | {"compact": np.arange(5, dtype="f4")}
    return {name: array.astype(array.dtype.newbyteorder("=")) for name, array in arrays.items()}


def check(arrays, found):
    assert arrays.keys() == found.keys()
    for name, array in arrays.items():
        assert array.dtype == found[name].dtype, name
        assert array.shape == found[name].shape, name
        np.testing.assert_array_equal(array, found[name], err_msg=name)


@pytest.mark.parametrize("libver", [("earliest", "v108"), ("v110", "v110"), ("latest", "latest")])
def test_honest_files_are_read(tmp_path, libver):
    """In the real child: every storage and filter, old and new file formats, attributes."""
    arrays = honest(tmp_path / "f.h5", libver)
    found = read_tree(tmp_path / "f.h5", BUDGET)
    check(arrays, found.arrays)
    assert list(found.arrays) == sorted(arrays)
    assert found.attributes == {
        "": {"layer_names": ["dense", "other"], "config": '{"a": "é"}'},
        "dense": {"weights": ["kernel", "bias"], "units": 40},
        "dense/kernel": {"range": [0.5, 1.5], "yes": True},
    }


def test_only_some_names(tmp_path, warm):
    arrays = honest(tmp_path / "f.h5")
    with h5py.File(tmp_path / "f.h5", "a") as file:
        file["aside/bad"] = h5py.SoftLink("/")
    names = ["dense/bias", "c/all", "dense/kernel"]
    check({name: arrays[name] for name in names}, read_datasets(tmp_path / "f.h5", BUDGET, names))
    for name, words in {
        "dense": "found a group",
        "dense/none": "no such dataset",
        "dense/bias/x": "no such dataset",
        "aside/bad": "a soft link",
        "aside/bad/dense/bias": "a soft link",
        "../f": "has the part '..'",
        "": "empty part",
    }.items():
        with pytest.raises(ModelFileError, match=words):
            read_datasets(tmp_path / "f.h5", BUDGET, [name])


def test_outline_and_memory_maps(tmp_path, warm):
    arrays = honest(tmp_path / "f.h5")
    outline = read_dataset_specs(tmp_path / "f.h5")
    assert {n: (s.shape, s.dtype) for n, s in outline.items()} == {
        n: (a.shape, a.dtype.name) for n, a in arrays.items()
    }
    names = ["dense/kernel", "big", "flags", "scalar", "none"]
    found = map_datasets(tmp_path / "f.h5", names)
    for name in names:
        np.testing.assert_array_equal(found[name], arrays[name])
    assert isinstance(found["dense/kernel"], np.memmap)
    assert not found["dense/kernel"].flags.writeable
    with pytest.raises(ModelFileError, match="c/gzip: chunked or compressed datasets can be read but not mapped"):
        map_datasets(tmp_path / "f.h5", ["c/gzip"])


def test_a_file_behind_a_user_block(tmp_path, warm):
    with h5py.File(tmp_path / "f.h5", "w", userblock_size=1024) as file:
        file["a"] = np.arange(10.0)
        file.create_dataset("b", data=np.arange(10.0), chunks=(3,), compression="gzip")
    found = read_datasets(tmp_path / "f.h5", BUDGET)
    np.testing.assert_array_equal(found["a"], np.arange(10.0))
    np.testing.assert_array_equal(found["b"], np.arange(10.0))
    np.testing.assert_array_equal(map_datasets(tmp_path / "f.h5", ["a"])["a"], np.arange(10.0))


def build(path, name, place):
    make, words, libver = KINDS[name]
    with h5py.File(path, "w", libver=libver) as file:
        change = make(file, place)
    if change is not None:
        before = path.read_bytes()
        after = change(before)
        assert after != before
        path.write_bytes(after)
    return words


def test_there_are_sixty_kinds():
    assert len(KINDS) >= 60


@pytest.mark.parametrize("place", ["w", "group/w"])
@pytest.mark.parametrize("name", KINDS)
def test_hostile_files_are_refused(tmp_path, warm, name, place):
    path = tmp_path / "f.h5"
    words = build(path, name, place)
    with pytest.raises(ModelFileError, match=words) as caught:
        read_datasets(path, BUDGET)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert len(message) < 1000 + len(str(path))
    assert "ended by" not in message
    with pytest.raises(ModelFileError):
        read_tree(path, BUDGET)
    assert os.listdir(tmp_path) == ["f.h5"]


@pytest.mark.parametrize("name", ["external_link_absolute", "opaque_python_objects", "a_gigabyte_of_zeros_deflated"])
def test_hostile_files_in_the_real_child(tmp_path, name):
    words = build(tmp_path / "f.h5", name, "w")
    with pytest.raises(ModelFileError, match=words):
        read_datasets(tmp_path / "f.h5", BUDGET)


def test_too_many_chunks_and_objects(tmp_path, warm, monkeypatch):
    honest(tmp_path / "f.h5")
    monkeypatch.setattr(hdf5_validator, "MAX_CHUNKS", 20)
    with pytest.raises(ModelFileError, match="c/plain: 24 chunks; at most 20 are allowed"):
        read_datasets(tmp_path / "f.h5", BUDGET, ["c/plain"])
    monkeypatch.setattr(hdf5_validator, "MAX_CHUNKS", 1000)
    monkeypatch.setattr(hdf5_validator, "MAX_OBJECTS", 10)
    with pytest.raises(ModelFileError, match="more than 10 objects in the file"):
        read_datasets(tmp_path / "f.h5", BUDGET)
    monkeypatch.undo()
    monkeypatch.setattr(foreign_hdf5, "_start_process", ForkedReader)
    monkeypatch.setattr(hdf5_attributes, "MAX_ATTRIBUTES", 1)
    with pytest.raises(ModelFileError, match="/: 2 attributes; the limit is 1"):
        read_tree(tmp_path / "f.h5", BUDGET)


def test_nothing_beside_the_file_is_imported(tmp_path, monkeypatch):
    arrays = honest(tmp_path / "f.h5")
    for name in ("h5py", "json", "numpy", "prototorch"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(77)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    check(arrays, read_datasets("f.h5", BUDGET))


def mutated(good, dice):
    bad = bytearray(good)
    for _ in range(dice.randint(1, 6)):
        place = dice.randrange(len(bad))
        choice = dice.random()
        if choice < 0.5:
            bad[place] = dice.randrange(256)
        elif choice < 0.8:
            place &= ~7
            bad[place : place + 8] = dice.choice((b"\xff" * 8, bytes(8), struct.pack("<Q", 1 << dice.randrange(64))))
        else:
            other = dice.randrange(len(bad))
            bad[place : place + 8] = bad[other : other + 8]
    if dice.random() < 0.05:
        del bad[dice.randrange(100, len(bad)) :]
    return bytes(bad)


@pytest.mark.parametrize("count", [120, pytest.param(22_000, marks=pytest.mark.slow)])
def test_mutations_never_harm_the_reader(tmp_path, warm, monkeypatch, count):
    """Only arrays or ModelFileError, within the budget; a child that dies or hangs is a ModelFileError too.

    The library does hang now and then (in damaged texts of attributes), so the time it is given is short here.
    """
    monkeypatch.setattr(foreign_hdf5, "_BASE_TIMEOUT", 0.5)
    originals = []
    for libver in (("earliest", "v108"), ("latest", "latest")):
        path = tmp_path / "f.h5"
        with h5py.File(path, "w", libver=libver) as file:
            file["dense/kernel"] = RNG.standard_normal((3, 4)).astype("f4")
            file.create_dataset("c", data=np.arange(30.0), chunks=(8,), compression="gzip", shuffle=True)
            file.create_dataset("d", data=np.arange(30), chunks=(8,), fletcher32=True)
            file.attrs["names"] = ["a", "b"]
        originals.append(path.read_bytes())
    dice = random.Random(count)
    read = 0
    for number in range(count):
        path.write_bytes(mutated(originals[number % 2], dice))
        try:
            found = read_tree(path, 10_000)
            assert sum(array.nbytes for array in found.arrays.values()) <= 10_000
            read += 1
        except ModelFileError:
            pass
    assert 0 < read < count


# --- a child that misbehaves ---


class Scripted:
    """A child that says whatever it is told to."""

    def __init__(self, code):
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        self.stdout, self.stderr = self.process.stdout, self.process.stderr
        self.kill, self.wait = self.process.kill, self.process.wait


def answer_of(head, data=b"", length=None):
    text = json.dumps(head).encode()
    whole = struct.pack("<Q", len(text) if length is None else length) + text + data
    return f"import os; os.write(1, {whole!r})"


GOOD = {"arrays": [["a", "<f4", [2], None]], "attributes": {}}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV; it is damaged or hostile"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGXCPU)", "ended by SIGXCPU"),
        ("import time; time.sleep(100)", "took more than 1 seconds; it is damaged or hostile"),
        ("import os; os._exit(5)", "ended with status 5"),
        ("pass", "ended with status 0"),
        (answer_of(GOOD, b"1234"), "ended with status 0"),
        (answer_of(GOOD, b"12345678") + "; os._exit(3)", "ended with status 3"),
        (answer_of(GOOD, b"123456789"), "damaged answer"),
        (answer_of(GOOD, length=1 << 60), "damaged answer"),
        (answer_of(GOOD, length=10), "damaged answer"),
        (answer_of([]), "damaged answer"),
        (answer_of({"arrays": [["../a", "<f4", [2], None]], "attributes": {}}), "damaged answer"),
        (answer_of({"arrays": [["a", "|O", [2], None]], "attributes": {}}), "damaged answer"),
        (answer_of({"arrays": [["a", "<f4", [-2], None]], "attributes": {}}), "damaged answer"),
        (answer_of({"arrays": [["a", "<f4", [10**9], None]], "attributes": {}}), "damaged answer"),
        (answer_of({"arrays": [["a", "<f4", [0, 1 << 62], None]], "attributes": {}}), "damaged answer"),
        (answer_of({"arrays": [["a", "<f4", ["x"], None]], "attributes": {}}), "damaged answer"),
        ("import os; os.write(2, b'the reason'); os._exit(3)", "the reason"),
    ],
)
def test_a_child_that_dies_hangs_or_lies(tmp_path, monkeypatch, code, words):
    (tmp_path / "f.h5").write_bytes(b"x")
    monkeypatch.setattr(foreign_hdf5, "_start_process", lambda request: Scripted(code))
    monkeypatch.setattr(foreign_hdf5, "_BASE_TIMEOUT", 1 if "sleep" in code else 60)
    with pytest.raises(ModelFileError, match=words):
        read_datasets(tmp_path / "f.h5", BUDGET)


def test_a_good_answer_is_taken(tmp_path, monkeypatch):
    (tmp_path / "f.h5").write_bytes(b"x")
    monkeypatch.setattr(
        foreign_hdf5, "_start_process", lambda request: Scripted(answer_of(GOOD, struct.pack("<ff", 1, 2)))
    )
    np.testing.assert_array_equal(read_datasets(tmp_path / "f.h5", BUDGET)["a"], np.array([1, 2], "f4"))


def test_the_child_can_do_no_harm(tmp_path):
    """After it gave up its rights: no file opened, none written, no process, little memory."""
    (tmp_path / "f").write_bytes(b"")

    def attempt(action):
        hdf5_sandbox._drop_privileges(1000, 5)
        try:
            action()
        except (OSError, MemoryError):
            return 0
        return 1

    actions = [
        lambda: os.open("/etc/passwd", os.O_RDONLY),
        lambda: os.open(tmp_path / "g", os.O_CREAT),
        lambda: os.pipe(),
        lambda: bytearray(400 << 20),
        lambda: os.write(target, b"x"),
    ]
    for action in actions:
        target = os.open(tmp_path / "f", os.O_WRONLY)
        pid = os.fork()
        if pid == 0:
            status = 9
            try:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                status = attempt(action)
            finally:
                os._exit(status)
        os.close(target)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert os.listdir(tmp_path) == ["f"]
    assert (tmp_path / "f").stat().st_size == 0


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_the_library_never_sees_a_file_before_the_limits_hold(tmp_path, monkeypatch):
    """The limits of the process at the moment in which HDF5 is called, reported as the reason of a refusal."""
    (tmp_path / "f.h5").write_bytes(b"x")

    def report(file, mode):
        names = ("NOFILE", "NPROC", "FSIZE", "CORE", "CPU", "AS")
        limits = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in names}
        raise hdf5_sandbox.UnsafeFileError(json.dumps(limits))

    monkeypatch.setattr(foreign_hdf5, "_start_process", ForkedReader)
    monkeypatch.setattr(hdf5_sandbox, "h5py", types.SimpleNamespace(File=report))
    with pytest.raises(ModelFileError) as caught:
        read_datasets(tmp_path / "f.h5", BUDGET)
    limits = json.loads(re.search(r"\{.*\}", str(caught.value))[0])
    assert all(limits[name] == [0, 0] for name in ("NOFILE", "NPROC", "FSIZE", "CORE"))
    assert 0 < limits["CPU"][1] <= 600
    assert limits["AS"][1] < 64 << 30  # that of the test's own process and some


def test_files_that_cannot_be_opened(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for name, words in {
        "none": "No such file",
        "fifo": "expected a regular file",
        ".": "expected a regular file",
    }.items():
        with pytest.raises(ModelFileError, match=words):
            read_datasets(tmp_path / name, BUDGET)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 719, 720, 721, 100_000])
def test_fletcher32_against_the_definition(count):
    data = RNG.integers(0, 256, count).astype("u1").tobytes()
    first = second = 0
    padded = data + b"\0" * (count % 2)
    for place in range(0, len(padded), 2):
        first = (first + padded[place] * 256 + padded[place + 1]) % 65535
        second = (second + first) % 65535
    assert hdf5_filters.fletcher32(data) == second << 16 | first


def test_a_chunk_whose_filters_were_skipped():
    plain = RNG.integers(0, 256, 64).astype("u1").tobytes()
    assert hdf5_filters.decode_chunk(plain, (2, 1), 0b11, 64, 4) == plain
    with pytest.raises(hdf5_filters.FilterError, match="not allowed"):
        hdf5_filters.decode_chunk(plain, (32000,), 0, 64, 4)
