"""LMDB and LevelDB: files of their own libraries are read, damaged ones are refused, and our files are as theirs."""

import gc
import random
import struct
import sys
import threading

import lmdb
import numpy as np
import pytest

from prototorch.caffe.data.databases import is_database, open_database
from prototorch.caffe.data.lmdb_pages import META_BYTES
from prototorch.engine.storage import reading_process
from prototorch.errors import DataError, PrototorchError, ResourceError
from tests.caffe.caffe_data import write_database, write_own_lmdb

FORMATS = ["LMDB", "LevelDB"]


def random_records(count, largest, seed=0):
    generator = random.Random(seed)
    keys = {b"%08d_%s" % (i, b"x" * generator.randint(0, 120)) for i in range(count)}
    return [(key, generator.randbytes(generator.randint(0, largest))) for key in sorted(keys)]


def read_all(folder):
    with open_database(folder) as database:
        return list(database.records())


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize(("count", "largest"), [(0, 0), (1, 9), (700, 4000), (60, 60_000)])
def test_records_of_the_formats_own_library(tmp_path, file_format, count, largest):
    records = random_records(count, largest)
    folder = write_database(tmp_path / "db", records, file_format)
    assert is_database(folder)
    with open_database(folder) as database:
        assert database.format == file_format
        assert list(database.records()) == records
        assert list(database.records(count // 2)) == records[count // 2 :]
        assert list(database.records(count)) == []
        assert list(database.keys()) == [key for key, _ in records]
        assert len(database) == count
        assert [database.value(i) for i in range(0, count, 7)] == [value for _, value in records[::7]]


@pytest.mark.parametrize("file_format", FORMATS)
def test_two_iterations_at_once_and_from_threads(tmp_path, file_format):
    records = random_records(600, 500)
    with open_database(write_database(tmp_path / "db", records, file_format)) as database:
        first, second = database.records(), database.records(300)
        assert [next(first), next(second), next(first)] == [records[0], records[300], records[1]]
        values = {}
        threads = [
            threading.Thread(target=lambda part=part: values.update({i: database.value(i) for i in part}))
            for part in (range(0, 600, 2), range(1, 600, 2))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert values == {i: value for i, (_, value) in enumerate(records)}


@pytest.mark.parametrize(("count", "largest"), [(0, 0), (1, 5000), (5, 100), (3000, 3000), (20_000, 20)])
def test_our_lmdb_is_read_and_changed_by_the_library(tmp_path, count, largest):
    records = random_records(count, largest, seed=1)
    folder = write_own_lmdb(tmp_path / "db", records)
    with lmdb.open(str(folder), readonly=True) as env:
        with env.begin() as transaction:
            assert list(transaction.cursor()) == records
        assert env.stat()["entries"] == count
    with lmdb.open(str(folder), map_size=1 << 27) as env, env.begin(write=True) as transaction:
        transaction.put(b"00000001_zz", b"new" * 3000)
        for key, _ in records[::3]:
            transaction.delete(key)
    expected = sorted([r for i, r in enumerate(records) if i % 3] + [(b"00000001_zz", b"new" * 3000)])
    with open_database(folder) as database:
        assert list(database.records()) == expected


def test_the_file_of_an_lmdb_alone(tmp_path):
    folder = write_own_lmdb(tmp_path / "db", [(b"a", b"1")])
    with open_database((folder / "data.mdb").rename(tmp_path / "alone.mdb")) as database:
        assert list(database.records()) == [(b"a", b"1")]


def test_what_the_writer_refuses(tmp_path):
    with pytest.raises(DataError, match=r"'b' must come after 'c'"):
        write_own_lmdb(tmp_path / "a", [(b"c", b""), (b"b", b"")])
    with pytest.raises(DataError, match="keys of 1 to 511 bytes, not 512"):
        write_own_lmdb(tmp_path / "b", [(b"k" * 512, b"")])


def test_a_truncated_lmdb_is_an_error_with_the_size(tmp_path):
    """LMDB's own library maps the file: reading such a database with it ends the process."""
    folder = write_database(tmp_path / "db", random_records(300, 9000))
    file = folder / "data.mdb"
    data = file.read_bytes()
    for size in (0, 10, META_BYTES, 4096, 8192, len(data) // 2, len(data) - 5000):
        file.write_bytes(data[:size])
        with pytest.raises(DataError, match=r"truncated|damaged|too few"):
            read_all(folder)


def test_damaged_lmdb_files_never_do_more_than_an_error(tmp_path):
    records = random_records(400, 6000)
    file = write_own_lmdb(tmp_path / "db", records) / "data.mdb"
    data = file.read_bytes()
    generator = np.random.default_rng(0)
    errors = 0
    for _ in range(150):
        changed = np.frombuffer(data, np.uint8).copy()
        pages = generator.integers(0, len(data) // 4096, 12)
        changed[pages * 4096 + generator.integers(0, 200, 12)] = generator.integers(0, 256, 12)
        file.write_bytes(changed.tobytes())
        try:
            with open_database(file.parent) as database:
                assert sum(len(value) for _, value in database.records()) <= len(data)
        except DataError:
            errors += 1
    assert errors > 20


def test_a_page_that_is_its_own_child(tmp_path):
    file = write_own_lmdb(tmp_path / "db", random_records(2000, 60)) / "data.mdb"
    data = bytearray(file.read_bytes())
    root = struct.unpack_from("<Q", data, 4096 + 16 + 24 + 48 + 40)[0]
    node = root * 4096 + struct.unpack_from("<H", data, root * 4096 + 16)[0]
    struct.pack_into("<HHH", data, node, root, 0, 0)
    file.write_bytes(data)
    with open_database(file.parent) as database, pytest.raises(DataError, match="part of the tree twice"):
        list(database.records())


def test_values_that_share_their_bytes_are_refused(tmp_path):
    """Few bytes must not become many: all records point at the value of the first."""
    records = [(b"k%02d" % i, bytes(2500 if i else 100_000)) for i in range(60)]
    file = write_own_lmdb(tmp_path / "db", records) / "data.mdb"
    data = bytearray(file.read_bytes())
    root = struct.unpack_from("<Q", data, 4096 + 16 + 24 + 48 + 40)[0] * 4096
    nodes = [root + offset for offset in struct.unpack_from("<60H", data, root + 16)]
    for node in nodes:
        data[node : node + 4] = data[nodes[0] : nodes[0] + 4]
        data[node + 11 : node + 19] = data[nodes[0] + 11 : nodes[0] + 19]
    file.write_bytes(data)
    with pytest.raises(DataError, match="has values that overlap with others"):
        read_all(file.parent)


def test_named_databases_are_refused(tmp_path):
    with lmdb.open(str(tmp_path / "db"), max_dbs=2) as env:
        env.open_db(b"first")
    with open_database(tmp_path / "db") as database, pytest.raises(DataError, match="named databases"):
        list(database.records())


def test_neither_format(tmp_path):
    (tmp_path / "CURRENT").write_text("../secret\n")
    assert not is_database(tmp_path)
    with pytest.raises(DataError, match=r"neither an LMDB .* nor a LevelDB"):
        open_database(tmp_path)


def test_a_leveldb_is_not_changed_and_may_be_read_only(tmp_path):
    folder = write_database(tmp_path / "db", random_records(500, 3000), "LevelDB")
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    folder.chmod(0o500)
    try:
        with open_database(folder) as database:
            assert len(list(database.records())) == 500
    finally:
        folder.chmod(0o700)
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()} == before


def test_damaged_leveldbs_end_in_an_error(tmp_path):
    import plyvel

    folder = write_database(tmp_path / "db", random_records(900, 3000), "LevelDB")
    with plyvel.DB(str(folder)) as database:
        database.compact_range()
    tables = {path: path.read_bytes() for path in folder.iterdir() if path.suffix == ".ldb"}
    for change in (lambda data: data[: len(data) // 2], lambda data: data[:-48] + bytes(48), lambda data: b""):
        for path, data in tables.items():
            path.write_bytes(change(data))
        with pytest.raises(DataError, match="the LevelDB is damaged"):
            read_all(folder)


def test_a_reading_process_that_ends_is_reported(tmp_path, monkeypatch):
    folder = write_database(tmp_path / "db", random_records(900, 3000), "LevelDB")
    with open_database(folder) as database:
        records = database.records()
        next(records)
        database._process.kill()
        with pytest.raises(DataError, match="ended by SIGKILL; the LevelDB is damaged or hostile"):
            list(records)


def test_iterators_that_are_collected_at_any_moment(tmp_path):
    """Cycles of abandoned iterators are collected while another request is answered: no dead lock, and none is kept."""
    records = random_records(300, 50)
    with open_database(write_database(tmp_path / "db", records, "LevelDB")) as database:
        threshold = gc.get_threshold()
        gc.set_threshold(1)
        try:
            for _ in range(40):
                iterator = database.records()
                assert next(iterator) == records[0]
                cycle = [iterator]
                cycle.append(cycle)
                del cycle, iterator
                assert database.value(5) == records[5][1]
        finally:
            gc.set_threshold(*threshold)
        assert len(database._ended_iterators) < 5


def test_leveldb_without_its_package(tmp_path, monkeypatch):
    folder = write_database(tmp_path / "db", [(b"a", b"1")], "LevelDB")
    without_packages = [entry for entry in sys.path if "site-packages" not in entry]
    monkeypatch.setattr(reading_process.sys, "path", without_packages)
    with pytest.raises(PrototorchError) as error:
        open_database(folder)
    assert isinstance(error.value, ResourceError)
    assert 'pip install "prototorch-dl[caffe-data]"' in str(error.value)
