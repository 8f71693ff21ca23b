"""Drivers, packages and GPUs that do not fit together: what "auto", "cuda" and `prototorch devices` make of each."""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings

import numpy as np
import pytest
from click.testing import CliRunner

import prototorch as pt
from prototorch.cli.commands.devices import command
from prototorch.cuda import availability, backend, device_report, packages
from prototorch.cuda.driver import DriverInfo, query_driver
from prototorch.cuda.packages import FRONTEND, Package, install_command
from prototorch.engine.backends import devices
from prototorch.errors import BackendError
from prototorch.ops.operators import OPS
from tests.cuda.fake.fake_gpu import fake_backend

FOR_13 = {"cupy-cuda13x": "14.2.0", "nvidia-cudnn-cu13": "9.19.0.56", FRONTEND: "1.28.0"}
FOR_12 = {"cupy-cuda12x": "14.2.0", "nvidia-cudnn-cu12": "9.28.0.42", FRONTEND: "1.28.0"}
H100 = DriverInfo(13000, 1, ((9, 0),), ("NVIDIA H100",))


def with_driver(version, **changes):
    return H100._replace(version=version, **changes)


@pytest.fixture
def machine(monkeypatch):
    """A function that sets the driver and the installed distributions of the machine."""

    def set_machine(driver, installed):
        found = importlib.util.find_spec
        has_cupy = any(name.startswith("cupy") for name in installed)
        monkeypatch.setattr(devices, "_warned", set())
        monkeypatch.delenv(devices.ENV_VAR, raising=False)
        monkeypatch.setattr(packages, "version_of", installed.get)
        for module in (availability, device_report):
            monkeypatch.setattr(module, "query_driver", lambda: driver)
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name: has_cupy or None if name == "cupy" else found(name)
        )
        monkeypatch.setattr(device_report, "list_gpus", lambda: ["0: a GPU"])
        monkeypatch.setattr(device_report, "load_cudart", lambda: "libcudart.so.13")
        monkeypatch.setattr(backend, "get_backend", lambda settings, index: fake_backend())

    return set_machine


#: driver, distributions, what is said, and the packages that the command removes; None: there is no command
PROBLEMS = {
    "no driver": (None, FOR_13, "this machine has no NVIDIA driver", None),
    "CUDA_VISIBLE_DEVICES is empty": (with_driver(13000, gpus=0, error=100), FOR_13, "shows no GPU", None),
    "the driver fails": (with_driver(13000, gpus=0, error=999), FOR_13, "CUDA_ERROR_UNKNOWN: in a container", None),
    "the driver was updated": (with_driver(13000, gpus=0, error=803), FOR_13, "restart the machine", None),
    "a new error": (with_driver(13000, gpus=0, error=12345), FOR_13, "does not start (CUDA's error 12345)", None),
    "a driver for CUDA 11": (with_driver(11080), FOR_12, "driver is for CUDA 11.8: install a newer one", None),
    "a driver for CUDA 11 alone": (with_driver(11080), {}, "driver is for CUDA 11.8: install a newer one", None),
    "no CuPy": (H100, {}, "CuPy is not installed", ()),
    "no CuPy, CUDA 12": (with_driver(12040), {}, "CuPy is not installed", ()),
    "CuPy for 13, driver for 12": (with_driver(12040), FOR_13,
                                   "CuPy is for CUDA 13 (cupy-cuda13x 14.2.0), and the NVIDIA driver for CUDA 12.4",
                                   ("cupy-cuda13x", "nvidia-cudnn-cu13")),
    "CuPy 13": (H100, {**FOR_13, "cupy-cuda13x": "13.6.0"}, "CuPy is too old (cupy-cuda13x 13.6.0)", ("cupy-cuda13x",)),
    "CuPy for CUDA 11": (with_driver(12080), {"cupy-cuda11x": "13.6.0"}, "CuPy is too old (cupy-cuda11x 13.6.0)",
                         ("cupy-cuda11x",)),
    "old CuPy from conda": (H100, {"cupy": "13.4.1"}, "CuPy is too old (cupy 13.4.1)", ("cupy",)),
    "two CuPys": (H100, {**FOR_13, **FOR_12}, "cupy-cuda13x 14.2.0 and cupy-cuda12x 14.2.0 are installed, and",
                  ("cupy-cuda13x", "cupy-cuda12x", "nvidia-cudnn-cu13", "nvidia-cudnn-cu12")),
    "CuPy for AMD": (H100, {"cupy-rocm-7-0": "14.2.0"}, "CuPy is for AMD's GPUs", ("cupy-rocm-7-0",)),
    "a Pascal": (with_driver(12080, capabilities=((6, 1),), names=("GTX 1080",)), FOR_12,
                 "the compute capability of GTX 1080 is 6.1, and 7.5 (Turing) is needed", None),
    "a Pascal without cuDNN": (with_driver(12080, capabilities=((6, 1),), names=("GTX 1080",)),
                               {"cupy-cuda12x": "14.2.0"}, "the compute capability of GTX 1080 is 6.1", None),
}  # fmt: skip
IS_EXPECTED = ("no driver", "CUDA_VISIBLE_DEVICES is empty")  # that "auto" is the CPU


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_gpu_that_cannot_be_used(machine, name):
    driver, installed, said, removed = PROBLEMS[name]
    machine(driver, installed)
    with pytest.raises(BackendError, match=r"the device 'cuda' cannot be used: .*; or use 'cpu'") as error:
        devices.backend_for("cuda")
    text = str(error.value)
    assert said in text
    assert "\n" not in text
    mend = None if removed is None else install_command(driver.major, removed)
    if mend is not None:
        assert mend in text
        assert f"cupy-cuda{min(driver.major, 13)}x>=14.2" in mend
    assert "prototorch[" not in text
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            assert devices.backend_for("auto").name.startswith("cpu")
    assert len(caught) == (name not in IS_EXPECTED)
    assert all(said in str(w.message) and devices.ENV_VAR in str(w.message) for w in caught)
    shown = CliRunner().invoke(command, ["--json"])
    assert shown.exit_code == 0, shown.output
    report = json.loads(shown.output)["cuda"]
    assert report["in use"] == "no"
    assert said in report["why"]
    if driver is not None:
        assert report.get("to mend") == mend, "one command for all of it, and none where no package mends it"


FITS = {
    "CUDA 13": (H100, FOR_13, {}),
    "CUDA 12 on a newer driver": (H100, FOR_12, {}),
    "CUDA 12": (with_driver(12040), FOR_12, {}),
    "CuPy from conda": (H100, {"cupy": "14.2.0"}, {"cudnn is not used": "cuDNN and cuDNN's graph API not installed"}),
    "no graph API": (H100, {**FOR_13, FRONTEND: None}, {"cudnn is not used": "graph API not installed"}),
    "cuDNN for 12 beside CuPy for 13": (
        H100, {**FOR_13, "nvidia-cudnn-cu12": "9.19.0.56"}, {"cudnn is not used": "which overwrite each other's"}),
    "cuDNN for 12 alone": (
        H100, {**FOR_12, "cupy-cuda12x": None, "cupy-cuda13x": "14.2.0"},
        {"cudnn is not used": "cuDNN is installed by nvidia-cudnn-cu12 9.28.0.42, and CuPy is for CUDA 13"}),
    "an old cuDNN": (
        H100, {**FOR_13, "nvidia-cudnn-cu13": "9.1.0"}, {"cudnn is not used": "too old (nvidia-cudnn-cu13 9.1.0)"}),
    "a new graph API": (H100, {**FOR_13, FRONTEND: "1.32.0"}, {"cudnn is not used": "is expected from 1.18 to 1.28"}),
    "a GPU that does not tell": (with_driver(13000, capabilities=((0, 0),)), FOR_13, {}),
    "a Turing": (with_driver(13000, capabilities=((7, 5),), names=("T4",)), FOR_13, {"precision": "T4: fp32 and fp16"}),
    "a Pascal beside an Ampere": (
        with_driver(12080, gpus=2, capabilities=((8, 6), (6, 1)), names=("A10", "P4")), FOR_12,
        {"not used": "the compute capability of P4 is 6.1"}),
}  # fmt: skip


@pytest.mark.parametrize("name", FITS)
def test_a_gpu_that_can_be_used(machine, name):
    driver, installed, notes = FITS[name]
    machine(driver, {k: v for k, v in installed.items() if v is not None})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert devices.backend_for("auto").name.startswith("cuda")
        assert devices.backend_for("cuda").name.startswith("cuda")
    report = device_report.describe_cuda()
    assert report["in use"].startswith("yes")
    for key, text in notes.items():
        assert text in report[key]
    assert ("to mend" in report) == ("cudnn is not used" in notes)
    assert not {"cudnn is not used", "precision", "not used"} - notes.keys() & report.keys()


def test_the_second_gpu_is_too_old(machine):
    machine(with_driver(12080, gpus=2, capabilities=((8, 6), (6, 1)), names=("A10", "P4")), FOR_12)
    with pytest.raises(BackendError, match=r"'cuda:1' cannot be used: the compute capability of P4 is 6.1, and 7.5"):
        devices.backend_for("cuda:1")


@pytest.mark.parametrize(
    ("precision", "capability", "is_tf32", "warned"),
    [("auto", (7, 5), "fp32", 0), ("tf32", (7, 5), "fp32", 1), ("fp32", (7, 5), "fp32", 0), ("fp16", (7, 5), "fp16", 0),
     ("auto", (8, 0), "tf32", 0), ("tf32", (8, 6), "tf32", 0), ("bf16", (8, 0), "bf16", 0), ("auto", None, "tf32", 0)],
)  # fmt: skip
def test_precisions_by_capability(machine, monkeypatch, precision, capability, is_tf32, warned):
    machine(with_driver(13000, capabilities=() if capability is None else (capability,), names=("T4",)), FOR_13)
    found = []
    monkeypatch.setattr(backend, "get_backend", lambda settings, index: found.append(settings) or fake_backend())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        devices.backend_for("cuda", precision=precision)
        devices.backend_for("cuda", precision=precision)
    assert [s.precision.name for s in found] == [is_tf32] * 2
    assert len(caught) == warned
    if capability == (7, 5):
        assert not found[0].precision.tf32


def test_bf16_needs_an_ampere(machine):
    machine(with_driver(13000, capabilities=((7, 5),), names=("Tesla T4",)), FOR_13)
    for device in ("cuda", "auto"):
        with pytest.raises(
            BackendError, match=r"precision bf16 needs the compute capability 8\.0 .* Tesla T4 has .* 7\.5"
        ):
            devices.backend_for(device, precision="bf16")


def test_a_library_that_fails_is_one_warning_of_auto(machine, monkeypatch):
    machine(H100, FOR_13)

    def get_backend(settings, index):
        raise BackendError("the GPU cannot be used: RuntimeError: libnvrtc.so.13 is not found")

    monkeypatch.setattr(backend, "get_backend", get_backend)
    with pytest.warns(
        RuntimeWarning, match=r"the GPU is not used: .* libnvrtc.so.13 is not found; PROTOTORCH_DEVICE=cpu"
    ):
        assert devices.backend_for("auto").name.startswith("cpu")
    with pytest.raises(BackendError, match="libnvrtc"):
        devices.backend_for("cuda")


class Library:
    """A driver's library."""

    def __init__(self, error=0):
        self.error = error

    def cuInit(self, flags):
        return self.error

    def cuDriverGetVersion(self, target):
        target._obj.value = 13000

    def cuDeviceGetCount(self, target):
        target._obj.value = 2

    def cuDeviceGetAttribute(self, target, attribute, index):
        target._obj.value = {75: 9 - index, 76: 6 * index}[attribute]
        return 0

    def cuDeviceGetName(self, target, size, index):
        target.value = b"NVIDIA H100" if index == 0 else b""


def test_what_the_driver_answers():
    driver = query_driver(lambda name: Library())
    assert driver == DriverInfo(13000, 2, ((9, 0), (8, 6)), ("NVIDIA H100", "GPU 1"))
    assert driver.text == "13.0"
    assert driver.capability(1) == (8, 6)
    assert driver.capability(2) is None
    silent = Library()
    silent.cuDeviceGetAttribute = lambda *_: 1
    assert query_driver(lambda name: silent).capability(0) is None
    assert query_driver(lambda name: Library(error=999)) == DriverInfo(13000, 0, error=999)
    assert query_driver(lambda name: Library(error=34)) is None, "the stub of CUDA's tools is no driver"


@pytest.mark.parametrize(
    ("name", "cuda"),
    [("cupy-cuda13x", 13), ("cupy-cuda12x", 12), ("cupy", None), ("cupy-cuda110", 11), ("nvidia-cudnn-cu12", 12),
     ("cupy-rocm-7-0", None)],
)  # fmt: skip
def test_the_version_of_cuda_in_a_name(name, cuda):
    assert Package(name, "14.2.0").cuda == cuda


@pytest.mark.parametrize(
    ("text", "cupy", "package"),
    [('Failure finding "libnvJitLink.so.13 or libnvJitLink.so.12": No such file\n listdir(...): libcublas.so.13',
      "cupy-cuda13x", "nvidia-cusolver"),
     ("libcusolver.so.11: cannot open shared object file", "cupy-cuda12x", "nvidia-cusolver-cu12"),
     ("libcufft.so.12: cannot open shared object file", "cupy-cuda13x", "nvidia-cufft")],
)  # fmt: skip
def test_an_op_whose_library_is_missing(monkeypatch, text, cupy, package):
    def reference(xp, x):
        raise ImportError(text)

    monkeypatch.setattr(packages, "version_of", {cupy: "14.2.0"}.get)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(OPS["cholesky"], "reference", reference)
    gpu = fake_backend()
    array = gpu.asarray(np.eye(2, dtype=np.float32))
    with pytest.raises(BackendError, match=f"^cholesky on a GPU needs .* not installed: pip install {package}$"):
        gpu.reference(OPS["cholesky"], {})([array], [array])


def test_a_library_without_the_functions_of_a_driver_is_none(monkeypatch):
    """A stub, or half a download: "auto" never fails."""
    whole = type("Library", (), {"cuInit": lambda self, flags: 0})()
    assert query_driver(lambda name: object()) is None
    assert query_driver(lambda name: whole) is None
    monkeypatch.setattr(availability, "query_driver", lambda: query_driver(lambda name: object()))
    assert devices.backend_for("auto").name.startswith("cpu")


def test_a_property_of_a_model_keeps_its_own_error(monkeypatch):
    model = pt.Sequential([pt.Input((3,)), pt.layers.Dense(2)])
    monkeypatch.setattr("prototorch.model.model.backend_for", lambda *args: object().cuInit)
    with pytest.raises(AttributeError, match="'object' object has no attribute 'cuInit'"):
        model.trainer  # noqa: B018


@pytest.mark.parametrize("body", ["raise ValueError('numpy.dtype size changed')", "raise AttributeError('x')", "x ="])
def test_a_damaged_cupy_is_one_warning(tmp_path, monkeypatch, body):
    (tmp_path / "cupy.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(packages, "version_of", FOR_13.get)
    monkeypatch.setattr(devices, "_warned", set())
    monkeypatch.delenv(devices.ENV_VAR, raising=False)
    for module in (availability, device_report):
        monkeypatch.setattr(module, "query_driver", lambda: H100)
    with pytest.warns(RuntimeWarning, match="the GPU is not used: CuPy cannot be imported: ") as caught:
        assert devices.backend_for("auto").name.startswith("cpu")
    assert len(caught) == 1
    with pytest.raises(BackendError, match="CuPy cannot be imported: "):
        devices.backend_for("cuda")
    assert "CuPy cannot use the GPU" in device_report.describe_cuda()["why"]
