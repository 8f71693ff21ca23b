"""Which device a word stands for, and what is told where there is no GPU."""

import ctypes
import subprocess
import sys

import pytest

import prototorch as pt
from prototorch.cuda import availability, device_kind, device_report
from prototorch.cuda.driver import query_driver
from prototorch.cuda.fake_device import FakeDevice
from prototorch.engine.backends import devices
from prototorch.engine.backends.precision import ExecutionSettings
from prototorch.errors import BackendError, UsageError
from tests.cuda.fake.fake_gpu import fake_backend


def test_the_driver_is_asked_itself():
    def none(name):
        raise OSError(name)

    assert query_driver(none) is None
    assert ctypes.CDLL is query_driver.__defaults__[0]


def test_cupy_that_fails_is_told(monkeypatch):
    """Installed, but a library of its is not there: the report says so and does not end in a traceback."""

    def broken(name):
        raise ImportError("libcublas.so.13: cannot open shared object file")

    monkeypatch.setattr(device_report, "find_problem", lambda driver, cupy: None)
    monkeypatch.setattr(device_report.importlib, "import_module", broken)
    assert device_report.describe_cuda()["in use"] == "no"
    assert "CuPy cannot use the GPU: ImportError: libcublas.so.13" in device_report.describe_cuda()["why"]


def test_auto_is_the_gpu_where_there_is_one(monkeypatch):
    monkeypatch.delenv(devices.ENV_VAR)
    made = fake_backend()
    monkeypatch.setattr(device_kind, "cuda_backend", lambda settings, index: made)
    monkeypatch.setattr(availability, "is_available", lambda: True)
    assert devices.backend_for() is made
    assert devices.backend_for("cpu").name.startswith("cpu")
    monkeypatch.setattr(availability, "is_available", lambda: False)
    assert devices.backend_for().name.startswith("cpu")
    monkeypatch.setenv(devices.ENV_VAR, "cuda")
    assert devices.backend_for() is made


def test_the_settings_reach_the_device(monkeypatch):
    asked = []

    def backend_of(settings, index):
        asked.append(settings)
        return fake_backend(FakeDevice(settings))

    monkeypatch.setattr(device_kind, "cuda_backend", backend_of)
    model = pt.Sequential([pt.Input((3,)), pt.layers.Dense(2)])
    model.compile("sgd", "mse", device="cuda", precision="bf16", deterministic=True, autotune=True)
    (found,) = asked
    assert isinstance(found, ExecutionSettings)
    assert (found.precision.name, found.deterministic, found.autotune) == ("bf16", True, True)


def test_a_device_that_is_not_there(monkeypatch):
    monkeypatch.setattr(availability, "query_driver", lambda: None)
    monkeypatch.setattr(availability, "cupy_packages", tuple)
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
        "or n.startswith('prototorch.cuda.') and n.split('.')[3] not in "
        "('array_namespace', 'availability', 'cudart', 'device', 'device_report', 'driver', 'packages')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
