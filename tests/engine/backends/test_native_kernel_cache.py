"""Compiled kernels on disk: several processes at once, damaged and foreign files, folders that cannot be used."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from prototorch.engine.backends import user_cache
from prototorch.engine.backends.cpu import cpu
from prototorch.engine.backends.cpu.native import (
    cache_key,
    compile_workers,
    cpu_features,
    jit,
    kernel_cache,
    llvm_compiler,
)
from prototorch.engine.backends.cpu.native.ir_builder import KernelBuilder
from prototorch.engine.backends.cpu.native.jit import CompileRequest, CompileStats, load_or_compile
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask, TaskProgram
from prototorch.engine.backends.user_cache import KEY_NAME, TEMP_PREFIX
from prototorch.errors import FileError

cpu("native")  # tells why where there is none

SCRIPT = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
import test_native_kernel_cache as t
print(t.results(int(sys.argv[2]), processes=2))
"""


def scaled(factor: int) -> CompileRequest:
    """A kernel that multiplies numbers by a factor."""

    def make(name: str) -> KernelBuilder:
        k = KernelBuilder(name)
        x, y = k.pointer(0), k.pointer(1)
        with k.range(k.first, k.last) as i:
            y.store(x.load(i) * float(factor), i)
        return k

    return CompileRequest("scaled", ("scaled", factor), make)


def ran(address: int, count: int = 5) -> list[float]:
    x, y = np.arange(count, dtype=np.float32), np.full(count, np.nan, np.float32)
    TaskProgram([ParallelTask(address, (x.ctypes.data, y.ctypes.data), count, count)], (x, y))()
    return y.tolist()


def results(count: int, processes: int = 1) -> float:
    """The sum of what kernels of the factors 1 ... count make; each makes 0 + 1 + ... + 4 times its factor."""
    return sum(sum(ran(address)) for address in load_or_compile([scaled(f + 1) for f in range(count)], processes))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty folder for kernels, and a process that knows none."""
    monkeypatch.setenv("PROTOTORCH_CACHE", str(tmp_path))
    forget()
    yield tmp_path / "kernels"
    forget()


def forget() -> None:
    jit._addresses.clear()
    jit._symbols.clear()


def counted(wanted: CompileRequest) -> tuple[int, int]:
    """What a kernel takes: (compiled, loaded). It must be right."""
    before = CompileStats.num_compiled, CompileStats.num_loaded
    factor = wanted.params[1]
    assert ran(load_or_compile([wanted])[0]) == [factor * i for i in range(5)]
    return CompileStats.num_compiled - before[0], CompileStats.num_loaded - before[1]


def only(folder) -> os.PathLike:
    (found,) = (p for p in folder.iterdir() if p.stem == scaled(3).cache_key.hex())
    return found


def test_code_is_made_once_and_then_read(cache):
    assert counted(scaled(3)) == (1, 0)
    assert counted(scaled(3)) == (0, 0)
    forget()
    assert counted(scaled(3)) == (0, 1)


def test_the_folder_is_the_users_alone(cache):
    counted(scaled(3))
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert {p.name for p in cache.iterdir()} == {KEY_NAME, f"{scaled(3).cache_key.hex()}.code", ".evicted"}
    assert all(stat.S_IMODE(p.stat().st_mode) & 0o077 == 0 for p in cache.iterdir())


@pytest.mark.parametrize("damage", [
    lambda held: held[: len(held) // 2],
    lambda held: b"",
    lambda held: held[:-1] + bytes([held[-1] ^ 1]),
    lambda held: bytes([held[0] ^ 1]) + held[1:],
    lambda held: b"cos\nsystem\n(S'exit 1'\ntR.",  # a pickle that would run a command
    lambda held: bytes(len(held)),
], ids=["cut", "empty", "last bit", "first bit", "pickle", "zeros"])  # fmt: skip
def test_a_damaged_file_is_made_again(cache, damage):
    counted(scaled(3))
    path = only(cache)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    forget()
    assert counted(scaled(3)) == (1, 0)
    assert path.read_bytes() == whole


def test_the_file_of_another_kernel_is_not_used(cache):
    counted(scaled(3))
    counted(scaled(4))
    other = cache / f"{scaled(4).cache_key.hex()}.code"
    only(cache).write_bytes(other.read_bytes())
    forget()
    assert counted(scaled(3)) == (1, 0)


@pytest.mark.parametrize("what", ["host_cpu", "vector_bits"])
def test_code_for_another_processor_is_not_used(cache, monkeypatch, what):
    counted(scaled(3))
    key = scaled(3).cache_key
    _, features = cpu_features.host_cpu()
    monkeypatch.setattr(cache_key, what, lambda: ("another", features) if what == "host_cpu" else 64)
    cache_key.clear_caches()
    try:
        assert scaled(3).cache_key != key
        assert kernel_cache.read(scaled(3).cache_key) is None
    finally:
        cache_key.clear_caches()


def test_nothing_is_kept_where_the_variable_is_empty(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("PROTOTORCH_CACHE", "")
    assert counted(scaled(3)) == (1, 0)
    forget()
    assert counted(scaled(3)) == (1, 0)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made(cache, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PROTOTORCH_CACHE", str(tmp_path / "file"))
    assert counted(scaled(3)) == (1, 0)
    assert kernel_cache.describe().startswith("none: ")


def test_a_user_without_a_home_folder(cache, monkeypatch):
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("PROTOTORCH_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(user_cache.Path, "home", nobody)
    assert counted(scaled(3)) == (1, 0)
    assert kernel_cache.describe() == "nowhere (no home folder; set PROTOTORCH_CACHE)"
    with pytest.raises(FileError, match=r"cannot be cached \(nowhere"):
        kernel_cache.check_writable()


def test_code_that_nobody_has_used_for_long_is_removed_once_a_day(cache):
    counted(scaled(3))
    counted(scaled(4))
    left, used = cache / f"{TEMP_PREFIX}x", cache / f"{scaled(4).cache_key.hex()}.code"
    left.write_bytes(b"")
    long_ago = time.time() - 2 * kernel_cache.MAX_AGE
    for path in cache.iterdir():
        if path.name != ".evicted":
            os.utime(path, (long_ago, long_ago))
    forget()
    assert counted(scaled(4)) == (0, 1)  # it is used again
    kernel_cache.evict_unused()
    assert len(list(cache.iterdir())) == 5  # it was looked at today
    os.utime(cache / ".evicted", (long_ago, long_ago))
    kernel_cache.evict_unused()
    assert set(cache.iterdir()) == {used, cache / KEY_NAME, cache / ".evicted"}


def test_a_file_that_cannot_be_written(cache, monkeypatch):
    counted(scaled(4))

    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(user_cache.os, "replace", refused)
    assert counted(scaled(3)) == (1, 0)
    monkeypatch.undo()
    assert len(list(cache.glob("*.code"))) == 1


def test_forged_code_with_a_digest_is_compiled_again(cache):
    """Whoever may write a file there, but cannot read the key, cannot have code run."""
    counted(scaled(3))
    path, forged = only(cache), b"scaled\0" + b"\x7fELF" + bytes(200)
    key = scaled(3).cache_key
    for digest in (hashlib.sha256(key + forged), hashlib.blake2b(path.name.encode() + b"\0" + forged, digest_size=32)):
        path.write_bytes(digest.digest() + forged)
        forget()
        assert counted(scaled(3)) == (1, 0)


def test_code_in_a_folder_that_others_may_write_to_is_not_run(cache):
    counted(scaled(3))
    os.chmod(cache, 0o777)
    forget()
    assert counted(scaled(3)) == (1, 0)


def test_clearing(cache):
    counted(scaled(3))
    (cache / ".unfinished-of-a-process-that-was-killed").write_bytes(b"half")
    assert kernel_cache.usage()[0] == 1
    assert kernel_cache.clear() == 2
    assert kernel_cache.usage() == (0, 0)


def test_kernels_of_the_same_code_are_compiled_once(cache):
    first = scaled(3)
    same = CompileRequest("scaled", ("scaled", 3, "for another batch size"), first.emit)
    before = CompileStats.num_compiled
    a, b = load_or_compile([first, same])
    assert a == b
    assert CompileStats.num_compiled - before == 1
    forget()
    before = CompileStats.num_compiled
    assert [ran(address) for address in load_or_compile([same, first])] == [[0, 3, 6, 9, 12]] * 2
    assert CompileStats.num_compiled == before


def test_several_processes_fill_one_folder_at_once(cache):
    count = 12
    here = os.path.dirname(__file__)
    command = [sys.executable, "-c", SCRIPT, here, str(count)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    want = 10.0 * sum(range(1, count + 1))
    for process in running:
        out, err = process.communicate()
        assert (process.returncode, out.strip()) == (0, str(want)), err
    assert not list(cache.glob(".unfinished-*"))
    before = CompileStats.num_compiled
    assert results(count) == want
    assert CompileStats.num_compiled == before  # every file was whole


def kernels(count: int) -> list[tuple[str, str]]:
    made = [(f"scaled_{i}", scaled(i + 1)) for i in range(count)]
    return [(symbol, one.emit(symbol).finish()) for symbol, one in made]


def test_processes_make_the_same_code_as_this_one():
    given = kernels(8)
    alone = compile_workers.CompileWorkers(0, *jit._target_cpu()).compile(given)
    together = compile_workers.CompileWorkers(2, *jit._target_cpu()).compile(given)
    assert alone == together
    assert set(alone) == {symbol for symbol, _ in given}


@pytest.mark.parametrize(
    "program",
    [
        "import sys; sys.exit(1)",
        "import sys; sys.stdin.buffer.read(9); sys.stdout.buffer.write(b'\\x09\\0\\0\\0half'); sys.stdout.flush()",
    ],
    ids=["ends at once", "ends in the middle of an answer"],
)
def test_what_a_process_fails_to_do_is_done_here(monkeypatch, program):
    def broken(aside: bool) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    monkeypatch.setattr(compile_workers, "_start_worker", broken)
    given = kernels(4)
    assert set(compile_workers.CompileWorkers(2, *jit._target_cpu()).compile(given)) == {symbol for symbol, _ in given}


def test_no_process_is_left_where_emitting_fails(monkeypatch):
    started = []
    begin = compile_workers._start_worker

    def watched(aside: bool) -> subprocess.Popen[bytes] | None:
        started.append(begin(aside))
        return started[-1]

    def failing():
        yield from kernels(2)
        raise KeyboardInterrupt

    monkeypatch.setattr(compile_workers, "_start_worker", watched)
    with pytest.raises(KeyboardInterrupt):
        compile_workers.CompileWorkers(2, *jit._target_cpu()).compile(failing())
    assert len(started) == 2
    assert all(one.returncode is not None for one in started)


def test_a_compiling_process_ends_with_its_input():
    process = compile_workers._start_worker()
    assert process is not None
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()


def test_requests_are_lengths_and_text():
    asked = llvm_compiler.encode_request("ir", "name", "+a")
    assert asked == b'\x0e\0\0\0\x02\0\0\0["name", "+a"]ir'
