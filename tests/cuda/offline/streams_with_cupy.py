"""All that enqueues work, by CuPy itself on the host's CUDA (`host_cuda.py`) with two GPUs; a process of its own.

Kernels do nothing here: what is checked is the stream and the GPU of each piece of work.

python streams_with_cupy.py FOLDER      folder: for CuPy's cache
"""
# ruff: noqa: E402 - CuPy is imported after its calls have been led away

from __future__ import annotations

import gc
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

os.environ["CUPY_CACHE_DIR"] = str(Path(sys.argv[1]) / "cupy")
os.environ["CUPY_ACCELERATORS"] = ""  # CUB calls CUDA by itself
sys.path.insert(0, str(Path(__file__).parents[3]))
from tests.cuda.offline.host_cuda import HostCuda, install

CUDA = HostCuda(devices=2)
HELD = install(CUDA)

import cupy
from cupy.cuda import compiler

import prototorch as pt
from prototorch.cuda.cudnn.context import set_context
from prototorch.engine.backends.devices import backend_for
from prototorch.ops.operators import OPS
from prototorch.spec import Spec
from tests.cuda.fake.fake_gpu import make_data, make_net

PARTS: list[Callable[[int], None]] = []


def part(function: Callable[[int], None]) -> Callable[[int], None]:
    """A part of the check; it is run for each GPU, in the main thread and in another one."""
    PARTS.append(function)
    return function


@part
def arrays_of_a_backend(gpu: int) -> None:
    backend = backend_for(f"cuda:{gpu}")
    array = backend.asarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    assert array.device.id == gpu
    assert backend.asarray(array, "float16").dtype == "float16"
    assert backend.to_numpy(array.T).shape == (4, 3)
    ins, outs = (Spec((3, 4)),), (Spec((3, 4)),)
    result = backend.empty(outs[0])
    with backend.run_context():
        backend.reference(OPS["tanh"], {})([array], [result])
        backend.prepare(OPS["tanh"], ins, outs, {})([array], [result])
    assert backend.free_bytes() > 0


@part
def tensors(gpu: int) -> None:
    x = pt.tensor(np.ones((4, 3), np.float32), device=f"cuda:{gpu}", requires_grad=True)
    assert x.array.device.id == gpu
    y = (x * 2 + 1).tanh()
    (y @ y.T).sum().backward()
    pt.optim.SGD([x], lr=0.1, momentum=0.9).step()
    z = x.detach().clone()
    z[1:] = 0
    z += 1
    z.T.contiguous(), z.half(), pt.zeros(3, device=x.device), pt.cat([z, z]), z.reshape(-1)[::2] * 3
    z.to("cpu"), z.to(f"cuda:{1 - gpu}"), z.cpu().cuda(), z.tolist(), repr(z), z.sum().item()
    with cupy.cuda.Device(gpu), cupy.cuda.Stream(non_blocking=True):
        theirs = cupy.ones(3, "float32")
    with cupy.cuda.Device(gpu):
        pt.from_dlpack(theirs, copy=True)


@part
def compiled_functions(gpu: int) -> None:
    device = f"cuda:{gpu}"
    x = pt.tensor(np.ones((4, 3), np.float32), device=device)
    weight = pt.tensor(np.ones((3, 2), np.float32), device=device, requires_grad=True)
    optimizer = pt.optim.Adam([weight], lr=0.1)

    def step(batch: Any) -> Any:
        optimizer.zero_grad()
        loss = (batch @ weight).tanh().sum()
        loss.backward()
        optimizer.step()
        return loss

    one = pt.compile(step)
    for _ in range(5):
        one(x).item()
    assert weight.device.index == gpu
    module = pt.nn.Sequential(pt.nn.Linear(3, 4), pt.nn.ReLU(), pt.nn.Linear(4, 2)).to(device)
    pt.nn.functional.cross_entropy(module(x), pt.tensor([0, 1, 0, 1], device=device)).backward()
    pt.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    loader = pt.utils.data.DataLoader(pt.utils.data.TensorDataset(pt.ones(8, 3)), batch_size=4, pin_memory=True)
    for (batch,) in loader:
        module(batch.to(device)).sum().item()
    x[pt.tensor([0, 2], device=device)] = 3
    (
        x[x > 0].sum().item(),
        x.argmax().item(),
        pt.randn(3, device=device),
        pt.arange(4, device=device),
        pt.where(x > 0, x, 0),
    )


@part
def questions(gpu: int) -> None:
    cuda = pt.cuda
    cuda.synchronize(gpu), cuda.mem_get_info(gpu), cuda.get_device_name(gpu), cuda.get_device_capability(gpu)
    cuda.memory_allocated(gpu), cuda.memory_reserved(gpu), cuda.max_memory_allocated(gpu), cuda.device_count()
    with cuda.device(gpu):
        cuda.empty_cache()
        assert pt.zeros(2, device="cuda").device.index == gpu


@part
def trainings(gpu: int) -> None:
    x, y = make_data(25)
    model = make_net()
    loss = pt.losses.SparseCategoricalCrossentropy(from_logits=True)
    reads = pt.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: (logs.get("loss"), dict(model.weights)))
    for precision in ("fp32", "bf16"):
        model.compile("adam", loss, metrics=["accuracy"], device=f"cuda:{gpu}", precision=precision, seed=3)
        set_context(model.trainer.plan_cache.backend.device, None)
        assert model.trainer.plan_cache.backend.device.index == gpu
        model.fit(x, y, batch_size=4, epochs=2, verbose=0, validation_split=0.2, callbacks=[reads])
        model.evaluate(x, y, verbose=0), model.predict(x)
    model.compile("sgd", loss, device="cpu")
    model.fit(x, y, batch_size=4, epochs=1, verbose=0)


@part
def batches_in_pinned_memory(gpu: int) -> None:
    """Assembled by the loader's threads, copied from where they are, and lent again."""
    x, y = np.ones((100, 3, 64, 64), np.float32), np.zeros(100, np.int64)
    model = pt.Sequential([pt.Input((3, 64, 64)), pt.layers.Flatten(), pt.layers.Dense(3)])
    model.compile("sgd", "sparse_categorical_crossentropy", device=f"cuda:{gpu}", precision="fp32")
    backend = model.trainer.plan_cache.backend
    set_context(backend.device, None)
    data = pt.data.ArrayDataset({"x": x, "y": y}, ["x"], ["y"])
    model.fit(pt.data.Loader(data, 16, threads=3).dataset, batch_size=16, epochs=3, verbose=0)
    model.trainer.synchronize()
    pool = backend.batch_memory
    assert pool.allocated_bytes
    gc.collect()
    assert sum(block.nbytes for block in pool._free) == pool.allocated_bytes


def main() -> None:
    """Run all parts, for both GPUs, one after the other and in threads."""
    CUDA.play = lambda source, name, grid, block, given: lambda: None
    compiler._NVRTCProgram.compile = lambda program, options=(), log=None: (b"code\0", {})
    warnings.simplefilter("ignore")  # results are not computed, so they are NaN
    for gpu in (0, 1):
        set_context(backend_for(f"cuda:{gpu}").device, None)
    failures: list[str] = []
    seen = 0

    def run(one: Callable[[int], None], gpu: int) -> None:
        nonlocal seen
        own = CUDA.current.number
        try:
            one(gpu)
        except Exception:
            failures.append(traceback.format_exc())
        if CUDA.current.number != own:
            failures.append(f"the thread's GPU was {own} and is {CUDA.current.number}")
        failures.extend(CUDA.wrong[seen:])
        seen = len(CUDA.wrong)

    for one in PARTS:
        for gpu in (1, 0):
            before = len(failures)
            run(one, gpu)
            thread = threading.Thread(target=run, args=(one, gpu))
            thread.start()
            thread.join()
            print(f"{one.__name__} on GPU {gpu}: {'; '.join(failures[before:]) or 'in order'}", flush=True)
    failures += [f"GPU {gpu} was not used" for gpu in (0, 1) if CUDA.launches[gpu] < 100]
    print("passed" if not failures else "failed", dict(CUDA.launches), flush=True)
    os._exit(bool(failures))  # CuPy's objects would call CUDA while Python ends


if __name__ == "__main__":
    main()
