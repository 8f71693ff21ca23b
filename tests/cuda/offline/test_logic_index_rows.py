"""The logic of the GPU's sorts and of reads and writes at arrays of indices, run on the CPU from the same text."""

from __future__ import annotations

import numpy as np
import pytest

from prototorch.cuda.kernels import radix_sort, segment_reduce
from prototorch.cuda.kernels.launch import LaunchSequence, WorkspaceArg, use_device
from prototorch.engine.backends.core import Backend
from prototorch.ops.operators import OPS
from prototorch.spec import Spec
from tests.cuda.offline.kernel_logic import check_kernel, random_array, run_kernel
from tests.cuda.offline.recording_devices import CollectDevice
from tests.cuda.offline.shim_device import COMPILER

pytestmark = pytest.mark.skipif(
    COMPILER is None, reason="the kernels are run on the CPU by g++, which is not installed"
)


@pytest.fixture
def small(monkeypatch):
    """Tiles and chunks so small that few keys fill several of them."""
    monkeypatch.setattr(radix_sort, "TILE", 32)
    monkeypatch.setattr(segment_reduce, "CHUNK", 8)
    monkeypatch.setattr(segment_reduce, "LAST_CHUNK", 8)


def distributions(n: int, rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n)
    many = rng.integers(0, rows, n)
    padded = many.copy()
    padded[rng.random(n) < 0.7] = 0
    return {
        "one row": np.full(n, rows - 1), "all rows": rng.permutation(n) % rows, "random": many, "padded": padded,
        "sorted": np.sort(many), "outside": rng.integers(-rows, 2 * rows, n), "alternating": np.arange(n) % 2,
        "nothing inside": np.full(n, -1),
    }  # fmt: skip


@pytest.mark.parametrize("kind", distributions(8, 5))
@pytest.mark.parametrize(("n", "rows"), [(1, 1), (8, 3), (33, 7), (200, 150), (300, 2)])
def test_rows_are_added_at_any_indices(device, small, kind, n, rows):
    indices = distributions(n, rows)[kind].astype(np.int32)
    values = random_array(n, 3)
    (one,) = check_kernel(device, "embedding_grad", [values, indices], {"rows": rows}, rtol=1e-5, atol=2e-5)
    (two,) = run_kernel(device, "embedding_grad", [values, indices], {"rows": rows})
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("kind", ["one row", "random", "padded"])
def test_rows_are_added_with_tiles_and_chunks_of_their_real_size(device, kind):
    indices = distributions(5000, 70)[kind].astype(np.int32)
    values = np.round(random_array(5000, 3) * 4)  # sums of these are exact
    check_kernel(device, "embedding_grad", [values, indices], {"rows": 70})


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int64", "int32"])
def test_rows_are_added_in_every_dtype(device, small, dtype):
    pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")
    indices = distributions(90, 11)["padded"].astype(np.int64)
    values = np.round(random_array(90, 2, 2) * 4).astype(dtype)  # sums of these are exact
    check_kernel(device, "embedding_grad", [values, indices], {"rows": 11})


def sort_in_workspace(device, keys: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    kind = {4: "u32", 8: "u64"}[keys.itemsize]
    with use_device(device):
        plan = radix_sort.plan_sort(keys.size, bits, kind)
        sequence = LaunchSequence(*plan.launches, workspace_bytes=plan.end)

    def at(place: WorkspaceArg, dtype) -> np.ndarray:
        return device.workspace()[place.offset :][: keys.size * np.dtype(dtype).itemsize].view(dtype)

    at(plan.input_keys, keys.dtype)[:] = keys
    sequence([], [])
    return at(plan.keys, keys.dtype).copy(), at(plan.positions, np.int32).copy()


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
@pytest.mark.parametrize("n", [1, 31, 32, 33, 500])
@pytest.mark.parametrize("bits", [1, 6, 7, 20])
def test_the_sort_is_stable(device, small, dtype, n, bits):
    keys = np.random.default_rng(n).integers(0, 1 << bits, n).astype(dtype)
    got, positions = sort_in_workspace(device, keys, bits)
    order = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(got, keys[order])
    np.testing.assert_array_equal(positions, order)


@pytest.mark.parametrize("n", [200, 4500])
@pytest.mark.parametrize("bits", [4, 5, 12])
def test_the_sort_is_stable_with_tiles_of_their_real_size(device, n, bits):
    """Keys of all digits, the last ones too, whose counts lie last in shared memory."""
    keys = np.random.default_rng(n).permutation(np.arange(n) % (1 << bits)).astype(np.uint32)
    got, positions = sort_in_workspace(device, keys, bits)
    order = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(got, keys[order])
    np.testing.assert_array_equal(positions, order)


def test_sixty_four_bits_are_sorted(device, small):
    keys = np.random.default_rng(0).integers(0, 1 << 63, 100).astype(np.uint64) * np.uint64(2)
    got, positions = sort_in_workspace(device, keys, 64)
    np.testing.assert_array_equal(got, np.sort(keys))
    np.testing.assert_array_equal(keys[positions], got)


@pytest.mark.parametrize("n", [4096, 1 << 20, 1 << 24])
def test_the_longest_loop_of_a_thread_is_short_for_any_number_of_tokens(n):
    """Counted for each launch, with a vocabulary of 32,000 and rows of 256, whatever the indices are. The sums of the
    tiles' digits alone grow with the tokens, by one block, 8,192 times slower than they."""
    device, rows, width = CollectDevice(), 32_000, 256
    ins = Spec((n, width)), Spec((n,), "int32")
    with use_device(device):
        backend = Backend("collect", np, ("cuda",))
        sequence = backend.prepare(OPS["embedding_grad"], ins, (Spec((rows, width)),), {"rows": rows})
    assert isinstance(sequence, LaunchSequence), "left to the reference implementation"
    tiles = -(-n // radix_sort.TILE)
    for launch in sequence.launches:
        sizes = {
            "begin_rows": max(n, rows * width) / (launch.grid * launch.block),
            "sort_tile": 16 + 64, "sort_count": 16 + 64 + 256, "sort_move": 16 + 3 * 64,
            "sort_sum": 2 * -(-(tiles << 6) // 256),
            "join_sorted": 64, "join_parts": 128,
        }  # fmt: skip
        assert sizes[launch.name] <= 512 + n / 8192, launch.name
    assert sequence.workspace_bytes < 17 * n + (1 << 16) + n * width * 4 / 16
    assert len(sequence.launches) <= 16


def index_cases():
    rng = np.random.default_rng(0)
    return {
        "first axis": ((7, 3), (0,), [rng.integers(-2, 9, 20)]),
        "last axis": ((3, 7), (1,), [rng.integers(-2, 9, (2, 5))]),
        "middle": ((2, 6, 3), (1,), [rng.integers(0, 6, 9)]),
        "two axes": ((4, 5, 2), (0, 1), [rng.integers(0, 4, (3, 1)), rng.integers(-1, 6, (1, 4))]),
        "all axes": ((4, 5), (0, 1), [rng.integers(0, 4, 30), rng.integers(0, 5, 30)]),
        "apart": ((3, 2, 4, 5), (0, 2), [rng.integers(-1, 4, (2, 1)), rng.integers(0, 4, (1, 5))]),
        "first and last": ((3, 4, 5), (0, 2), [rng.integers(0, 3, 7), rng.integers(0, 5, 7)]),
        "behind": ((2, 4, 5), (1, 2), [np.array(2), rng.integers(0, 5, 6)]),
    }


@pytest.mark.parametrize("case", index_cases())
def test_elements_at_arrays_of_indices_are_read(device, case):
    shape, axes, indices = index_cases()[case]
    for dtype in ("float32", "int32", "bool"):
        x = (random_array(*shape) * 9).astype(dtype)
        check_kernel(device, "advanced_index", [x, *indices], {"axes": axes})


@pytest.mark.parametrize("reduce", ["set", "sum", "prod", "amax", "amin"])
@pytest.mark.parametrize("case", index_cases())
def test_elements_at_arrays_of_indices_are_written(device, small, case, reduce):
    shape, axes, indices = index_cases()[case]
    indices = [i.astype(np.int64) for i in indices]
    specs = [Spec(shape), *(Spec(i.shape, "int64") for i in indices)]
    wide = OPS["advanced_index"].infer_spec(*specs, axes=axes).shape
    for dtype in ("float32", "int32", "bool"):
        x, values = (np.round(random_array(*s, seed=k) * 3).astype(dtype) for k, s in enumerate((shape, wide)))
        attrs = {"axes": axes, "reduce": reduce}
        check_kernel(device, "index_put", [x, values, *indices], attrs, rtol=1e-5)


@pytest.mark.parametrize("picks", [3, 40])
def test_elements_are_added_along_the_last_axis(device, small, picks):
    along = np.random.default_rng(0).integers(0, 6, (4, picks))
    check_kernel(device, "scatter_add_along_axis", [random_array(4, picks), along], {"size": 6}, rtol=1e-5, atol=1e-5)
    # a negative index counts from the end, as in the lookup whose gradient this is
    values = random_array(4, picks)
    (below,) = run_kernel(device, "scatter_add_along_axis", [values, along - 6], {"size": 6})
    (above,) = run_kernel(device, "scatter_add_along_axis", [values, along], {"size": 6})
    np.testing.assert_array_equal(below, above)
