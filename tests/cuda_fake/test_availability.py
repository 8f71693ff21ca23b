"""Which device a word stands for, and what is told where there is no GPU."""

import ctypes
import importlib.util
import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

import prototorch as pt
from prototorch.backends import devices
from prototorch.backends.cuda import availability
from prototorch.backends.precision import ExecutionSettings
from prototorch.cli.commands.devices import command
from prototorch.errors import BackendError, UsageError
from tests.cuda_fake.fake_gpu import fake_backend


class Library:
    """A driver that shows some GPUs."""

    def __init__(self, version=13000, count=1, broken=False):
        self.version, self.count, self.broken = version, count, broken

    def cuInit(self, flags):
        return 999 if self.broken else 0

    def cuDriverGetVersion(self, target):
        target._obj.value = self.version

    def cuDeviceGetCount(self, target):
        target._obj.value = self.count


def there(monkeypatch, driver, cupy=True, parts=()):
    """Let the machine have a driver and distributions."""
    monkeypatch.setattr(availability, "query_driver", lambda: driver)
    found = importlib.util.find_spec
    told = {"cupy": object() if cupy else None}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: told[name] if name in told else found(name))
    monkeypatch.setattr(availability, "_installed_version", lambda d: f"{d} 1.0" if d in parts else None)
    monkeypatch.setattr(availability, "list_gpus", lambda: ["0: a GPU, sm_90, 139 GiB"])


def test_the_driver_is_asked_itself():
    assert availability.query_driver(lambda name: Library(12040, 2)) == availability.DriverInfo(12040, 2)
    assert availability.query_driver(lambda name: Library(12040, 2)).text == "12.4"
    assert availability.query_driver(lambda name: Library(broken=True)).gpus == 0

    def none(name):
        raise OSError(name)

    assert availability.query_driver(none) is None
    assert ctypes.CDLL is availability.query_driver.__defaults__[0]


@pytest.mark.parametrize(
    ("driver", "cupy", "why"),
    [
        (
            None,
            False,
            "no NVIDIA driver, and CuPy is not installed (pip install 'cupy-cuda13x[ctk]>=14.2,<15' 'nvidia-cudnn-cu13",
        ),
        (None, True, "this machine has no NVIDIA driver"),
        (availability.DriverInfo(13000, 0), True, "the NVIDIA driver shows no GPU"),
        (availability.DriverInfo(13000, 1), False, "CuPy is not installed: pip install 'cupy-cuda13x[ctk]>=14.2,<15' "),
        (availability.DriverInfo(12060, 1), False, "CuPy is not installed: pip install 'cupy-cuda12x[ctk]>=14.2,<15' "),
        (availability.DriverInfo(13000, 1), True, ""),
    ],
)
def test_why_not(monkeypatch, driver, cupy, why):
    there(monkeypatch, driver, cupy)
    assert why in availability.unavailable_reason()
    assert bool(why) == bool(availability.unavailable_reason())
    assert availability.is_available() == (not why)


def test_what_is_told_of_a_gpu(monkeypatch):
    there(monkeypatch, availability.DriverInfo(13000, 1), parts=("cupy-cuda13x", "nvidia-cudnn-cu13"))
    told = availability.describe_cuda()
    assert told["in use"].startswith("yes")
    assert told["gpu"] == ["0: a GPU, sm_90, 139 GiB"]
    assert told["cupy"] == "cupy-cuda13x 1.0"
    assert told["driver"] == "for CUDA 13.0"
    assert told["missing"].startswith("cudnn frontend: pip install 'cupy-cuda13x[ctk]>=14.2,<15' 'nvidia-cudnn-cu13")
    assert "slow" in told["without cudnn"]


def test_nothing_is_missing(monkeypatch):
    there(
        monkeypatch,
        availability.DriverInfo(12080, 1),
        parts=("cupy-cuda12x", "nvidia-cudnn-cu12", availability.FRONTEND),
    )
    told = availability.describe_cuda()
    assert "missing" not in told
    assert "without cudnn" not in told


def test_the_command(monkeypatch):
    there(monkeypatch, None, cupy=False)
    shown = CliRunner().invoke(command, ["--json"])
    assert shown.exit_code == 0
    told = json.loads(shown.output)
    assert told["cuda"]["in use"] == "no"
    assert "pip install" in told["cuda"]["why"]


def test_cupy_that_fails_is_told(monkeypatch):
    """Installed, but a library of its is not there: the report says so and does not end in a traceback."""

    def broken(name):
        raise ImportError("libcublas.so.13: cannot open shared object file")

    gpus = availability.list_gpus
    there(monkeypatch, availability.DriverInfo(13000, 1), cupy=True)
    monkeypatch.setattr(availability, "list_gpus", gpus)
    monkeypatch.setattr(availability.importlib, "import_module", broken)
    assert availability.describe_cuda()["in use"] == "no"
    assert "CuPy cannot use the GPU: ImportError: libcublas.so.13" in availability.describe_cuda()["why"]


def test_auto_is_the_gpu_where_there_is_one(monkeypatch):
    monkeypatch.delenv(devices.ENV_VAR)
    made = fake_backend()
    monkeypatch.setattr(devices, "cuda_backend", lambda settings, index: made)
    monkeypatch.setattr(devices, "is_available", lambda: True)
    assert devices.backend_for() is made
    assert devices.backend_for("cpu").name.startswith("cpu")
    monkeypatch.setattr(devices, "is_available", lambda: False)
    assert devices.backend_for().name.startswith("cpu")
    monkeypatch.setenv(devices.ENV_VAR, "cuda")
    assert devices.backend_for() is made


def test_the_settings_reach_the_device(monkeypatch):
    asked = []
    monkeypatch.setattr(devices, "cuda_backend", lambda settings, index: asked.append(settings) or fake_backend())
    model = pt.Sequential([pt.Input((3,)), pt.layers.Dense(2)])
    model.compile("sgd", "mse", device="cuda", precision="bf16", deterministic=True, autotune=True)
    (found,) = asked
    assert isinstance(found, ExecutionSettings)
    assert (found.precision.name, found.deterministic, found.autotune) == ("bf16", True, True)


def test_a_device_that_is_not_there(monkeypatch):
    there(monkeypatch, None, cupy=False)
    with pytest.raises(BackendError, match=r"the device 'cuda' cannot be used: .*pip install .* or use 'cpu'"):
        devices.backend_for("cuda")
    with pytest.raises(BackendError, match="there is no device 'gpu'"):
        devices.backend_for("gpu")
    with pytest.raises(UsageError, match="there is no precision"):
        devices.backend_for("cpu", precision="int8")


@pytest.mark.parametrize("word", ["bf16", "float32", "auto"])
def test_the_words_of_a_text(word, tmp_path):
    text = f'input {{ name: "x" shape: [3] }} Dense {{ units: 2 }} compile {{ loss: mse precision: {word} }}'
    path = tmp_path / "m.proto"
    path.write_text(text)
    model = pt.load_model(path)
    assert model.compile_block.precision == word
    assert ("precision" in model.to_text()) == (word != "auto")


def test_nothing_of_cuda_is_imported():
    code = (
        "import sys, prototorch as pt; "
        "m = pt.Sequential([pt.Input((3,)), pt.layers.Dense(2)]); m.compile('sgd', 'mse'); "
        "print([n for n in sys.modules if n.split('.')[0] in ('cupy', 'cudnn', 'ml_dtypes') "
        "or n.startswith('prototorch.backends.cuda.') and n.split('.')[3] not in "
        "('device', 'availability', 'array_namespace')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
