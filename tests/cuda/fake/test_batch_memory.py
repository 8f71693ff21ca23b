"""Batches assembled in pinned memory: the same bits as on the CPU, and no block is used again too early.

The fake device copies from a host buffer when it must, not before: a block that serves another batch while a copy from
it waits gives wrong weights.
"""

from __future__ import annotations

import gc

import numpy as np
import pytest
from PIL import Image

import prototorch as pt
from prototorch.cuda.pinned_pool import PinnedPool
from prototorch.data import ArrayDataset, Data, Loader
from prototorch.data.batch_assembly import MIN_COLUMN_BYTES, BatchAssembly
from prototorch.data.dataset import Dataset
from prototorch.spec import Spec
from tests.cuda.fake.fake_gpu import (
    FakeDevice,
    assert_same_weights,
    compile_net,
    executor_of,
    fake_backend,
    reference_cpu,
)

SIZE, BATCH = 32, 8
pytestmark = pytest.mark.filterwarnings("ignore::prototorch.data.checks.DataWarning")


def make_net():
    layers = pt.layers
    return pt.Sequential([
        pt.Input((3, SIZE, SIZE)), layers.MaxPooling2D(4, name="pool"), layers.Dropout(0.2, name="drop"),
        layers.Flatten(name="flat"), layers.Dense(3, name="logits"),
    ])  # fmt: skip


def make_arrays(count=67, dtype="float32", seed=0):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 256, (count, 3, SIZE, SIZE)).astype(dtype)
    return (x / 255 if dtype == "float32" else x).astype(dtype), rng.integers(0, 3, count)


def train(backend, x, y=None, **options):
    model = compile_net(backend, make_net)
    history = model.fit(x, y, **{"batch_size": BATCH, "epochs": 3, "verbose": 0, **options})
    return model, history.history


def assert_as_on_the_cpu(make_data, **options):
    (a, history), device = train(reference_cpu(), *make_data(), **options), FakeDevice()
    backend = fake_backend(device)
    b, other = train(backend, *make_data(), **options)
    assert_same_weights(a, b)
    assert history == other
    return b, backend


def assert_all_returned(backend):
    gc.collect()
    pool = backend.batch_memory
    assert sum(block.nbytes for block in pool._free) == pool.allocated_bytes > 0


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("threads", [0, 1, 3])
def test_a_fit_of_arrays(monkeypatch, threads, dtype):
    """With a smaller last batch, validation and class weights."""
    monkeypatch.setattr(Loader, "_choose_threads", lambda self: threads)
    options = {"batch_size": 32, "validation_split": 0.2, "class_weight": {0: 1.0, 1: 2.0, 2: 0.5}}
    model, backend = assert_as_on_the_cpu(lambda: make_arrays(dtype=dtype), **options)
    model.trainer.synchronize()
    assert_all_returned(backend)


def test_full_batches_are_not_copied_again():
    """Their arrays are what the device copies from: the step has no pinned memory of its own for them."""
    backend = fake_backend()
    model, _ = train(backend, *make_arrays(8 * BATCH))
    assert not any(slot.large for slot in executor_of(model, "train", BATCH)._staging._slots)
    assert backend.batch_memory.allocated_bytes


@pytest.mark.parametrize("order", ["channels last", "no channel axis", "not contiguous"])
def test_columns_of_another_shape_are_read_to_their_place(monkeypatch, order):
    monkeypatch.setattr(Loader, "_choose_threads", lambda self: 2)
    x, y = make_arrays()
    given = {"channels last": np.ascontiguousarray(np.moveaxis(x, 1, -1)), "no channel axis": x[:, 0].copy(),
             "not contiguous": np.asfortranarray(x)}[order]  # fmt: skip
    dataset = ArrayDataset({"x": given, "y": y}, ["x"], ["y"])
    channels = 1 if order == "no channel axis" else 3
    layers = pt.layers

    def net():
        return pt.Sequential([pt.Input((channels, SIZE, SIZE)), layers.Flatten(), layers.Dense(3, name="logits")])

    models = []
    for backend in (reference_cpu(), fake_backend()):
        models.append(compile_net(backend, net))
        models[-1].fit(dataset, batch_size=20, epochs=2, verbose=0)
    assert_same_weights(*models)


def write_images(folder, count=20, damaged=()):
    rng = np.random.default_rng(1)
    for i in range(count):
        path = folder / "abc"[i % 3] / f"{i:02d}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (SIZE, SIZE, 3)).astype(np.uint8)).save(path)
        if i in damaged:
            path.write_bytes(path.read_bytes()[:90])


@pytest.mark.parametrize("options", [{}, {"threads": 3}, {"on_error": "skip", "skip_limit": 0.2}], ids=str)
def test_images_of_a_folder(tmp_path, options):
    """Decoded by several threads to their place in the batch; with a damaged one, which is left out."""
    write_images(tmp_path, damaged=(7,) if "on_error" in options else ())
    data = Data(source=str(tmp_path), **options)
    assert_as_on_the_cpu(lambda: (data,), batch_size=24)


def test_batches_of_a_generator():
    x, y = make_arrays(64)

    def batches():
        for k in range(0, 64, 16):
            yield x[k : k + 16], y[k : k + 16]

    _, backend = assert_as_on_the_cpu(lambda: (batches,))
    assert backend.batch_memory.allocated_bytes


def test_a_block_that_is_used_too_early_is_noticed(monkeypatch):
    """The other way round: were blocks given back at once, the weights would be others."""
    x, y = make_arrays()
    expected, _ = train(reference_cpu(), x, y, epochs=1)
    backend = fake_backend()
    block = np.zeros(1 << 20, np.uint8)
    monkeypatch.setattr(backend.batch_memory, "_take", lambda size: block)
    model, _ = train(backend, x, y, epochs=1)
    with pytest.raises(AssertionError):
        assert_same_weights(expected, model)


def test_predictions_and_evaluations():
    x, y = make_arrays()
    a, b = (train(backend, x, y, epochs=1)[0] for backend in (reference_cpu(), fake_backend()))
    np.testing.assert_array_equal(a.predict(x, batch_size=16), b.predict(x, batch_size=16))
    assert a.evaluate(x, y, batch_size=16) == b.evaluate(x, y, batch_size=16)


class Failing(Dataset):
    """A data set whose sample 40 cannot be read."""

    name, inputs, targets, grain_size = "failing", ("x",), ("y",), 2

    def __init__(self):
        self.x, self.y = make_arrays()
        self.columns = {"x": Spec((3, SIZE, SIZE), "float32"), "y": Spec((), "int64")}

    def __len__(self):
        return len(self.x)

    def read(self, indices):
        if 40 in indices:
            raise OSError("the disk is gone")
        return {"x": self.x[indices], "y": self.y[indices]}

    def origin(self, index):
        return f"sample {index}"


def test_an_error_of_a_thread_ends_the_fit_and_returns_all_memory():
    backend = fake_backend()
    model = compile_net(backend, make_net)
    with pytest.raises(pt.errors.DataError, match="the disk is gone"):
        model.fit(Failing(), batch_size=BATCH, verbose=0)
    model.trainer.synchronize()
    assert_all_returned(backend)


def test_a_fit_that_ends_early_returns_all_memory():
    backend = fake_backend()
    x, y = make_arrays(400)
    model = compile_net(backend, make_net)
    model.fit(x, y, batch_size=32, steps_per_epoch=2, epochs=1, verbose=0)
    model.trainer.synchronize()
    assert_all_returned(backend)


def test_a_loss_that_is_not_finite_names_its_samples():
    """Its batch is still there when the device reports it some steps later."""
    x, y = make_arrays(200)
    x[133] = 3e38  # finite, and its sum is not
    model = compile_net(fake_backend(), make_net)
    with pytest.raises(pt.errors.TrainingError, match="row 133"):
        model.fit(x, y, batch_size=BATCH, verbose=0)


def test_continued_after_an_interruption():
    x, y = make_arrays()

    class Stop(pt.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 3:
                self.model.stop_training = True

    for callbacks in ([], [Stop()]):
        a, b = (train(backend, x, y, callbacks=callbacks)[0] for backend in (reference_cpu(), fake_backend()))
        assert_same_weights(a, b)


# ---------------------------------------------------------------- the pool


def make_pool(limit=1 << 20):
    return PinnedPool(lambda n: np.zeros(n, np.uint8), FakeLock(), limit)


class FakeLock:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def test_a_block_is_free_when_its_last_view_is_gone():
    pool = make_pool()
    array = pool.empty((100, 100), "float32")
    address, view = array.ctypes.data, array[5:7].T
    assert pool.holds(view)
    assert not pool.holds(view.copy())
    del array
    other = pool.empty((100, 100), "float32")
    assert other.ctypes.data != address
    del view
    assert pool.empty((90, 100), "float32").ctypes.data == address


def test_beyond_the_limit_there_is_none_and_one_warning():
    pool = make_pool(1 << 18)
    held = pool.empty((3 << 16,), "uint8")
    with pytest.warns(RuntimeWarning, match=r"pinned already, of at most 256.0 KiB.*smaller batch"):
        assert pool.empty((2 << 16,), "uint8") is None
    assert pool.empty((2 << 16,), "uint8") is None
    del held  # its block makes room for another size
    assert pool.empty((1 << 16,), "uint8") is not None


def test_a_fit_with_too_little_pinned_memory_is_the_same():
    x, y = make_arrays()
    expected, _ = train(reference_cpu(), x, y)
    backend = fake_backend()
    backend.batch_memory._limit = 3 << 17
    with pytest.warns(RuntimeWarning, match="take one copy more"):
        model, _ = train(backend, x, y)
    assert_same_weights(expected, model)


def test_small_columns_stay_in_ordinary_memory():
    pool = make_pool()
    assembly = BatchAssembly(pool, {})
    columns = {"small": np.zeros((2, 3)), "large": np.zeros((4, MIN_COLUMN_BYTES), np.uint8)}
    moved = assembly.move(columns)
    assert moved["small"] is columns["small"]
    assert pool.holds(moved["large"])
    assert assembly.move(moved)["large"] is moved["large"]
