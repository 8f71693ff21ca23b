"""cuDNN that plans for an H200 that is not there: nothing can be run, but every graph is accepted or refused."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from pathlib import Path

from prototorch.cuda.cudnn.context import CudnnContext, set_context
from prototorch.cuda.cudnn.execution_plan import ExecutionPlan
from tests.cuda.offline.recording_devices import PlanDevice

#: filled in by hand from known figures; a real card says it by cudnn.create_device_properties(0).serialize()
H200 = {
    "deviceName": "NVIDIA H200", "cudaDeviceId": 0, "deviceVer": 900, "driverVer": 13000,
    "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
    "multiProcessorCount": 132, "smCountOrigin": 0, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000,
    "memoryBusWidth": 6144, "l2CacheSize": 62914560, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
    "maxSharedMemoryPerBlockOptin": 232448, "oversizedSharedMemoryPerBlock": 0, "reservedSharedMemoryPerBlock": 1024,
    "maxRegistersPerSM": 65536, "pciDeviceId": 0, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
    "maxThreadsPerSM": 2048, "isTccDriver": 0, "supportCoopLaunch": 1, "totalGlobalMem": 150754820096,
}  # fmt: skip


class OfflineDevice(PlanDevice):
    """A device with cuDNN for an H200, on which nothing runs."""

    name = "NVIDIA H200 (offline)"
    multiprocessors = H200["multiProcessorCount"]
    reserved = 0

    def reserve(self, nbytes: int) -> None:
        self.reserved = max(self.reserved, nbytes)


def load_stub_driver(folder: Path) -> None:
    """Load the fake device for the driver under the name that cuDNN asks for."""
    source, made = Path(__file__).with_name("stub_driver.c"), folder / "libcuda.so.1"
    compiler = shutil.which("gcc")
    assert compiler is not None
    options = ["-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1"]
    subprocess.run([compiler, *options, str(source), "-o", str(made)], check=True)
    ctypes.CDLL(str(made), mode=ctypes.RTLD_GLOBAL)


def make_offline_device(precision: str, deterministic: bool = False) -> OfflineDevice:
    """A device that plans. The driver must be loaded."""
    import cupy

    cupy.cuda.nvrtc.getVersion()  # loads NVRTC with its built-in functions, for the engines compiled at run time
    import cudnn

    properties = cudnn.create_device_properties(json.dumps(H200))
    device = OfflineDevice(precision, deterministic)

    def graph(io, compute):
        return cudnn.pygraph(
            io_data_type=io,
            intermediate_data_type=compute,
            compute_data_type=compute,
            device_property=properties,
            sm_version=90,
        )

    set_context(device, CudnnContext(cudnn, device, graph))
    return device


def engine_name(plan: ExecutionPlan) -> str:
    """The engine of a plan with its settings, as in "eng6_k24=26"."""
    return plan.graph.get_plan_name_at_index(plan.graph._plan_index)
