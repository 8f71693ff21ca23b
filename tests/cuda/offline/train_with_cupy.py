"""Trainings by CuPy itself on the host's CUDA (`host_cuda.py`), beside the CPU; run in a process of its own.

python train_with_cupy.py PRECISION FOLDER      folder: for CuPy's cache and the translated kernels
"""
# ruff: noqa: E402 - CuPy is imported after its calls have been led away

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PRECISION, FOLDER = sys.argv[1], Path(sys.argv[2])
os.environ["CUPY_CACHE_DIR"] = str(FOLDER / "cupy")
sys.path.insert(0, str(Path(__file__).parents[3]))
from tests.cuda.offline.host_cuda import HostCuda, install

CUDA = HostCuda()
HELD = install(CUDA)

from cupy.cuda import compiler

import prototorch as pt
from prototorch.cuda.backend import CudaBackend
from prototorch.cuda.cudnn.context import set_context
from prototorch.cuda.cupy_device import CupyDevice
from prototorch.engine.backends.precision import ExecutionSettings, resolve_precision
from tests.cuda.fake.fake_gpu import compile_net, executor_of, reference_cpu
from tests.cuda.offline.shim_device import POINTER, ShimDevice
from tests.cuda.offline.small_tiles import shrink_tiles

#: a parameter of a kernel by its code (see `shim_device.py`): an address is a number of 64 bits
KINDS = {4: np.uint32, 8: np.uint64, 16 + 4: np.float32, 16 + 8: np.float64, POINTER: np.uint64}
SOURCE = b"SOURCE:"
CLOSE = {"fp32": 1e-5, "bf16": 1e-2}  # float32 sums in another order; 8 bits of mantissa, over eighteen small steps


def player(folder: Path) -> Callable[..., Callable[[], Any]]:
    """Plays what CuPy launches: the arguments as CuPy has put them down, read as the kernel's parameters."""
    shim = ShimDevice(str(folder))

    def play(image: bytes, name: str, grid: int, block: int, given: int) -> Callable[[], Any]:
        assert image.startswith(SOURCE), "not a module of ours"
        key = shim.load_module(image[len(SOURCE) :].decode())
        kinds = ctypes.create_string_buffer(256)
        count = shim._library(key)[0][f"kinds_{name}"](kinds)
        args = []
        for number, code in enumerate(kinds.raw[:count]):
            at, kind = ctypes.c_void_p.from_address(given + 8 * number).value, np.dtype(KINDS[code])
            args.append(np.frombuffer((ctypes.c_char * kind.itemsize).from_address(at or 0), kind)[0])
        return lambda: shim.launch(key, name, grid, block, args)

    return play


def net() -> Any:
    layers = pt.layers
    return pt.Sequential([
        pt.Input((5,)), layers.Dense(4, activation="tanh", name="a"), layers.BatchNormalization(name="norm"),
        layers.Dropout(0.2, name="drop"), layers.Dense(3, name="b"),
    ])  # fmt: skip


def use_source_modules() -> None:
    """NVRTC with CuPy's options says whether it takes a text; what is loaded is the text itself, for `player`."""
    (FOLDER / "kernels").mkdir()
    CUDA.play = player(FOLDER / "kernels")
    made = compiler._NVRTCProgram.compile

    def text(program: Any, options: Any = (), log: Any = None) -> tuple[bytes, dict[str, str]]:
        code = made(program, options, log)
        return (SOURCE + program.src.encode() + b"\0", {}) if program.src.strip() else code

    compiler._NVRTCProgram.compile = text


def main() -> None:
    """Train here and there."""
    shrink_tiles()
    use_source_modules()
    device = CupyDevice(ExecutionSettings(resolve_precision(PRECISION, gpu=True)))
    set_context(device, None)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((25, 5)).astype("float32"), rng.integers(0, 3, 25)
    models = [compile_net(b, net, optimizer="sgd") for b in (reference_cpu(), CudaBackend(device))]
    for model in models:
        model.fit(x, y, batch_size=4, epochs=3, verbose=0, validation_split=0.1)
    runner = executor_of(models[1], batch=4)
    assert runner.graph is not None, runner.capture_failure
    assert CUDA.calls["graph"] > 5
    assert not CUDA.wrong, CUDA.wrong
    a, b = (m.get_weights() for m in models)
    for name in a:
        np.testing.assert_allclose(a[name], b[name], rtol=0, atol=CLOSE[PRECISION], err_msg=name)
    print(f"passed: {dict(CUDA.calls)}", flush=True)
    os._exit(0)  # CuPy's objects would call CUDA while Python ends


if __name__ == "__main__":
    main()
