"""The thread pool: every piece once, in any order; commits in order; errors; scratch memory; one pool in a process."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from prototorch.engine.backends.cpu import cpu, worker_pool
from prototorch.errors import UsageError


@pytest.fixture(params=[1, 2, 5], autouse=True)
def threads(request):
    kept = worker_pool.num_threads()
    worker_pool.set_num_threads(request.param)
    yield request.param
    worker_pool.set_num_threads(kept)


@pytest.mark.parametrize(("n", "grain"), [(0, 3), (1, 1), (10, 3), (10, 10), (10, 99), (257, 1)])
def test_every_piece_is_done_once(n, grain):
    done = np.zeros(n, int)

    def work(start, stop):
        assert 0 < stop - start <= grain
        done[start:stop] += 1

    worker_pool.parallel_for(work, n, grain)
    assert (done == 1).all()


def test_commits_come_in_order():
    order = []
    worker_pool.parallel_for(lambda start, stop: start, 200, 3, blas=True, combine=order.append)
    assert order == list(range(0, 200, 3))


@pytest.mark.parametrize("where", ["work", "commit"])
@pytest.mark.parametrize("bad", [0, 7, 19])
def test_an_error_in_a_piece_is_raised_and_leaves_the_pool_usable(bad, where):
    def fail(value):
        if value == bad:
            raise KeyError("piece")

    work, commit = (lambda start, stop: fail(start), None) if where == "work" else (lambda start, stop: start, fail)
    with pytest.raises(KeyError, match="piece"):
        worker_pool.parallel_for(work, 20, 1, combine=commit)
    test_commits_come_in_order()


def test_pieces_may_make_pieces():
    total = []
    worker_pool.parallel_for(lambda a, b: worker_pool.parallel_for(lambda c, d: total.append(1), 4, 1), 6, 1)
    assert len(total) == 24


def test_several_threads_of_the_caller_share_the_pool():
    sums = []

    def use():
        parts = np.zeros(100)
        for _ in range(20):
            worker_pool.parallel_for(lambda a, b: parts.__setitem__(slice(a, b), 1), 100, 7, blas=True)
        sums.append(parts.sum())

    users = [threading.Thread(target=use) for _ in range(4)]
    for u in users:
        u.start()
    for u in users:
        u.join()
    assert sums == [100] * 4


def test_blas_is_held_to_one_thread_inside_and_let_go_after(threads):
    libraries = worker_pool._BlasThreads().libraries()
    if not libraries:
        return  # a BLAS that cannot be told
    seen = []
    worker_pool.parallel_for(lambda a, b: seen.append(libraries[0].num_threads), 8, 1, blas=True)
    assert threads == 1 or set(seen) == {1}
    assert libraries[0].num_threads == threads


def test_scratch_is_kept_and_never_overlaps():
    one, two = worker_pool.scratch_arrays(((3, 5), "float32"), ((7,), "bool"))
    again = worker_pool.scratch_arrays(((3, 5), "float32"), ((7,), "bool"))
    assert again[0] is one
    assert again[1] is two
    assert not np.shares_memory(one, two)
    assert one.ctypes.data % 64 == 0
    (other,) = worker_pool.scratch_arrays(((3, 5), "float32"), use="other")
    assert not np.shares_memory(one, other)
    (large,) = worker_pool.scratch_arrays(((1 << 16,), "float64"))
    large[:] = 1
    assert worker_pool.scratch_arrays(((0,), "float32"))[0].size == 0


def test_the_number_of_threads(threads):
    assert cpu().threads == threads
    assert cpu(threads=3).threads == 3
    assert worker_pool.num_threads() == 3
    for wrong in (0, -1):
        with pytest.raises(UsageError, match="at least 1"):
            cpu(threads=wrong)


@pytest.mark.parametrize(("said", "wanted"), [({"PROTOTORCH_THREADS": "3", "OMP_NUM_THREADS": "2"}, "3"),
                                              ({"PROTOTORCH_THREADS": "", "OMP_NUM_THREADS": "2"}, "2")])  # fmt: skip
def test_the_environment_says_how_many(said, wanted, threads):
    if threads != 1:
        return  # a process of its own: once is enough
    code = "from prototorch.engine.backends.cpu import worker_pool; print(worker_pool.num_threads())"
    made = subprocess.run([sys.executable, "-c", code], env={**os.environ, **said}, capture_output=True, check=True)
    assert made.stdout.decode().strip() == wanted


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_child_has_a_pool_of_its_own():
    code = (
        "import os\n"
        "from prototorch.engine.backends.cpu import worker_pool as pool\n"
        "pool.set_num_threads(2)\n"
        "done = []\n"
        "pool.parallel_for(lambda a, b: done.append(a), 50, 1)\n"
        "child = os.fork()\n"
        "pool.parallel_for(lambda a, b: done.append(a), 50, 1)\n"
        "assert len(done) == 100\n"
        "if child: assert os.waitpid(child, 0)[1] == 0\n"
        "else: os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


def test_alone_a_thread_does_everything_itself(threads):
    who = set()

    def work(start, stop):
        who.add(threading.current_thread())

    with worker_pool.single_threaded():
        assert worker_pool.num_threads() == 1
        worker_pool.parallel_for(work, 50, 1)
        with worker_pool.single_threaded():
            pass
        assert worker_pool.num_threads() == 1
        other = []
        thread = threading.Thread(target=lambda: other.append(worker_pool.num_threads()))
        thread.start()
        thread.join()
    assert who == {threading.current_thread()}
    assert other == [threads]
    assert worker_pool.num_threads() == threads
