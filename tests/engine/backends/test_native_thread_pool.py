"""The thread team: many small regions, several callers, other numbers of threads, forks, and the end of the process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from prototorch.engine.backends.cpu import cpu, worker_pool
from prototorch.engine.backends.cpu.native.ir_builder import KernelBuilder
from prototorch.engine.backends.cpu.native.jit import CompileRequest, load_or_compile
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask, TaskProgram

cpu("native")  # tells why where there is none

SCRIPT = """
import os, sys, threading, time
sys.path.insert(0, {here!r})
import numpy as np
from test_native_thread_pool import added, worker_pool
worker_pool.set_num_threads({threads})
{body}
"""


def _add(name: str) -> KernelBuilder:
    """Adds 1 to numbers."""
    k = KernelBuilder(name)
    x = k.pointer(0)
    with k.range(k.first, k.last) as i:
        x.store(x.load(i) + 1.0, i)
    return k


def _parts(name: str) -> KernelBuilder:
    """Sums of pieces of 8 numbers, one piece an item."""
    k = KernelBuilder(name)
    x, y = k.pointer(0), k.pointer(1)
    with k.range(k.first, k.last) as i:
        total = k.variable(k.zero())
        with k.range(8) as j:
            total.value = total.value + x.load(i * 8 + j)
        y.store(total.value, i)
    return k


def _code(make) -> int:
    return load_or_compile([CompileRequest(make.__name__.strip("_"), make.__name__, make)])[0]


def adding(x: np.ndarray, times: int, pieces: int = 16) -> TaskProgram:
    """A program of so many records that each add 1 to x."""
    task = ParallelTask(_code(_add), (x.ctypes.data,), x.size, max(x.size // pieces, 1))
    return TaskProgram([task] * times, x)


def added(times: int, size: int = 64) -> bool:
    """Whether a program of so many small records makes what it should."""
    x = np.zeros(size, np.float32)
    adding(x, times)()
    return bool((x == times).all())


@pytest.fixture(autouse=True)
def _as_before():
    before = worker_pool.num_threads()
    yield
    worker_pool.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_many_small_records(threads):
    worker_pool.set_num_threads(threads)
    assert added(5000)


@pytest.mark.parametrize("threads", [2, 4])
def test_many_small_programs_whose_memory_goes_at_once(threads):
    """A worker that wakes late finds a program that is over: it must not read its records."""
    worker_pool.set_num_threads(threads)
    for size in range(1, 400):
        assert added(3, size)


def test_callers_of_several_threads_take_turns():
    worker_pool.set_num_threads(2)
    found: list[bool] = []

    def work() -> None:
        found.extend(added(20) for _ in range(50))

    callers = [threading.Thread(target=work) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert found == [True] * 200


def test_the_number_of_threads_may_change():
    for threads in (2, 4, 1, 3, 2, 1, 4):
        worker_pool.set_num_threads(threads)
        assert added(20)
    names = [t.name for t in threading.enumerate() if t.name.startswith("prototorch-")]
    assert len(names) <= 3


def test_the_same_bits_for_any_number_of_threads():
    x = np.random.default_rng(0).standard_normal(8 * 1000, np.float32)
    made = []
    for threads in (1, 2, 4):
        worker_pool.set_num_threads(threads)
        y = np.full(1000, np.nan, np.float32)
        TaskProgram([ParallelTask(_code(_parts), (x.ctypes.data, y.ctypes.data), 1000, 10)], (x, y))()
        made.append(y.tobytes())
    assert made[0] == made[1] == made[2]


def _script(body: str, threads: int = 2) -> str:
    source = SCRIPT.format(here=os.path.dirname(__file__), threads=threads, body=body)
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", source],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


@pytest.mark.parametrize("pause", ["", "time.sleep(0.2)"], ids=["spinning", "asleep"])
@pytest.mark.parametrize("threads", [2, 4])
def test_the_process_ends(threads, pause):
    assert _script(f"assert added(50)\n{pause}\nprint('over')", threads) == "over\n"


def test_the_process_ends_while_another_thread_works():
    body = """
def work():
    while True:
        added(5)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
print('over')
"""
    assert _script(body) == "over\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_a_team_of_its_own():
    body = """
assert added(50)
child = os.fork()
if child == 0:
    os._exit(0 if added(50) else 1)
assert added(50)
print(os.waitpid(child, 0)[1])
"""
    assert _script(body) == "0\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_while_another_thread_works():
    body = """
going = True
def work():
    while going:
        added(50)
worker = threading.Thread(target=work)
worker.start()
codes = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        os._exit(0 if added(50) else 1)
    codes.append(os.waitpid(child, 0)[1])
going = False
worker.join()
print(codes)
"""
    assert _script(body) == "[0, 0, 0, 0, 0]\n"


def _scratched(name: str) -> KernelBuilder:
    """Takes x into scratch memory, of this thread and of all, and from there into y."""
    k = KernelBuilder(name)
    x, y, size = k.pointer(0), k.pointer(1), k.argument(2)
    with k.range(k.first, k.last):
        with k.range(size) as i:
            k.local.store(x.load(i) + 1.0, i)
            k.shared.store(x.load(i) + 2.0, i)
        with k.range(size) as i:
            y.store(k.local.load(i) + k.shared.load(i), i)
    return k


@pytest.mark.parametrize("threads", [1, 2])
def test_programs_find_the_scratch_memory_where_it_went(threads):
    """A program that ran before is run again after another one, or another number of threads, made the memory move."""
    worker_pool.set_num_threads(threads)

    def doubling(size: int) -> tuple[TaskProgram, np.ndarray]:
        x, y = np.arange(size, dtype=np.float32), np.full(size, np.nan, np.float32)
        task = ParallelTask(_code(_scratched), (x.ctypes.data, y.ctypes.data, size), 1, 1, 4 * size, 4 * size)
        return TaskProgram([task], (x, y)), y

    made = [doubling(size) for size in (10, 1000, 100_000, 300_000)]
    for again in range(3):
        worker_pool.set_num_threads(threads + again)
        for program, y in (*made, made[0]):
            y[:] = np.nan
            program()
            assert (y == 2 * np.arange(y.size, dtype=np.float32) + 3).all()


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("size", [65_534, 65_536, 200_001])
def test_more_pieces_than_a_ticket_counts(threads, size):
    worker_pool.set_num_threads(threads)
    x = np.zeros(size, np.float32)
    adding(x, 3, pieces=size)()
    assert (x == 3).all()
