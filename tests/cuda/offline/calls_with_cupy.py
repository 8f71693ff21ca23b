"""The first check `calls` by CuPy itself on the host's CUDA (`host_cuda.py`); run in a process of its own.

python calls_with_cupy.py FOLDER      folder: for CuPy's cache and the translated kernels
"""
# ruff: noqa: E402 - CuPy is imported after its calls have been led away

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
os.environ["CUPY_CACHE_DIR"] = str(FOLDER / "cupy")
sys.path.insert(0, str(Path(__file__).parents[3]))
sys.argv[1:] = ["fp32", str(FOLDER)]
from benchmarks import gpu_calls
from prototorch.cuda.backend import CudaBackend
from prototorch.cuda.cudnn.context import set_context
from prototorch.cuda.cupy_device import CupyDevice
from prototorch.engine.backends.precision import ExecutionSettings, resolve_precision
from tests.cuda.offline import train_with_cupy


def main() -> None:
    """Run the check; all of its reports are printed."""
    train_with_cupy.use_source_modules()
    device = CupyDevice(ExecutionSettings(resolve_precision("fp32", gpu=True)))
    set_context(device, None)
    backend = CudaBackend(device)

    def backend_for(name: str, **settings: Any) -> Any:
        return backend

    gpu_calls.check_strided_copies = lambda device: None  # its kernel is CuPy's own, which the host does not run
    gpu_calls.backend_for = backend_for  # type: ignore[assignment]
    gpu_calls.calls(print, FOLDER)
    assert not train_with_cupy.CUDA.wrong, train_with_cupy.CUDA.wrong
    print("passed", flush=True)
    os._exit(0)  # CuPy's objects would call CUDA while Python ends


if __name__ == "__main__":
    main()
