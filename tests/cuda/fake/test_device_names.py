"""Which GPU a device's name chooses, and what is said of a name or a number that there is none of."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

import prototorch as pt
from prototorch import caffe
from prototorch.caffe.settings import SETTINGS, current_backend
from prototorch.cli.main import group
from prototorch.cuda import availability, device_kind
from prototorch.cuda.availability import DriverInfo
from prototorch.engine.backends import devices
from prototorch.errors import BackendError, PrototorchError, TextError, UsageError
from tests.cuda.fake.fake_cuda import use_fake_cuda

TEXT = 'input {{ name: "x"  shape: [3] }} Dense {{ units: 2 }} compile {{ loss: mse  device: "{}" }}'


@pytest.fixture
def two_gpus(monkeypatch):
    """A machine with two GPUs; the numbers of those that are used."""
    used = []
    with use_fake_cuda():
        made = device_kind.cuda_backend
        monkeypatch.setattr(availability, "query_driver", lambda: DriverInfo(13000, 2))

        def cuda_backend(settings, index=0):
            used.append(index)
            return made(settings, index)

        monkeypatch.setattr(device_kind, "cuda_backend", cuda_backend)
        yield used


def net():
    return pt.Sequential([pt.Input((3,)), pt.layers.Dense(2)])


@pytest.mark.parametrize(("name", "number"), [("cuda", 0), ("cuda:0", 0), ("cuda:1", 1)])
def test_the_number_chooses_the_gpu(two_gpus, name, number, monkeypatch, tmp_path):
    model = net()
    model.compile("sgd", "mse", device=name)
    (tmp_path / "m.proto").write_text(TEXT.format(name))
    pt.load_model(tmp_path / "m.proto").predict(np.zeros((1, 3), np.float32))
    monkeypatch.setenv(devices.ENV_VAR, name)
    devices.backend_for("auto")
    assert two_gpus == [number] * 3


def test_the_command_line_chooses_the_gpu(two_gpus, tmp_path):
    (tmp_path / "m.proto").write_text(TEXT.format("cpu"))
    model = pt.load_model(tmp_path / "m.proto")
    model.save(tmp_path / "m.h5")
    np.save(tmp_path / "x.npy", np.zeros((2, 3), np.float32))
    arguments = [str(tmp_path / "m.h5"), str(tmp_path / "x.npy"), "--device", "cuda:1"]
    done = CliRunner().invoke(group, ["predict", *arguments])
    assert done.exit_code == 0, done.output
    assert set(two_gpus) == {1}
    done = CliRunner().invoke(group, ["predict", *arguments[:-1], "gpu1"])
    assert done.exit_code == 2
    assert "there is no device 'gpu1'" in done.output
    assert "Did you mean 'cuda:1'?" in done.output


def test_two_models_on_two_gpus(two_gpus):
    models = [net(), net()]
    x, y = np.ones((8, 3), np.float32), np.ones((8, 2), np.float32)
    for k, model in enumerate(models):
        model.compile("sgd", "mse", device=f"cuda:{k}")
    for _ in range(2):
        for model in models:
            model.fit(x, y, batch_size=2, verbose=0)
    first, second = (model.trainer.plan_cache.backend.device for model in models)
    assert first is not second
    assert first.log.count(("begin_capture",)) == second.log.count(("begin_capture",)) == 1


def test_a_gpu_that_is_not_there(two_gpus):
    with pytest.raises(BackendError, match=r"'cuda:2' cannot be used: this machine shows 2 GPUs, 'cuda:0' to 'cuda:1'"):
        net().compile("sgd", "mse", device="cuda:2")
    with pytest.raises(BackendError, match="this machine shows 2 GPUs"):
        pt.zeros(2, device="cuda:5")
    with pytest.raises(BackendError, match="this machine shows 2 GPUs"):
        pt.cuda.set_device(2)


def test_a_model_of_the_second_gpu_opens_on_other_machines(tmp_path, monkeypatch):
    """As one of "cuda" does: it is read and checked; computing says what is missing; another device can be named."""
    with use_fake_cuda():
        model = net()
        model.compile("sgd", "mse", device="cuda:1")
        model.fit(np.ones((4, 3), np.float32), np.ones((4, 2), np.float32), verbose=0)
        model.save(tmp_path / "m.h5")
    text = TEXT.format("cuda:1")
    (tmp_path / "m.proto").write_text(text)
    assert CliRunner().invoke(group, ["check", str(tmp_path / "m.proto")]).exit_code == 0
    assert 'device: "cuda:1"' in pt.load_model(tmp_path / "m.proto", overrides=()).to_text()
    monkeypatch.setattr(availability, "query_driver", lambda: None)
    for name in ("m.h5", "m.proto"):
        with pytest.raises(BackendError, match="the device 'cuda:1' cannot be used: this machine has no NVIDIA driver"):
            pt.load_model(tmp_path / name).predict(np.zeros((1, 3), np.float32))
    x = np.ones((2, 3), np.float32)
    here = pt.load_model(tmp_path / "m.h5", overrides=("compile.device=cpu",))
    np.testing.assert_allclose(here.predict(x), model.predict(x), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("cuda:99999999999", ""), ("cuda:01", ""), ("cuda:", "cuda"), ("cuda:-1", ""), ("cuda1", "cuda:1"),
     ("gpu", "cuda"), ("CUDA:3", "cuda:3"), ("gpu:0", "cuda:0"), ("cpu:1", ""),
     ("tpu", ""), ("cuda:1:2", ""), ("", "")],
)  # fmt: skip
def test_what_is_no_device(name, hint, tmp_path, monkeypatch):
    said = []
    (tmp_path / "m.proto").write_text(TEXT.format(name))
    monkeypatch.setenv(devices.ENV_VAR, name or "nothing")
    for call in (
        lambda: net().compile("sgd", "mse", device=name),
        lambda: pt.load_model(tmp_path / "m.proto"),
        lambda: devices.backend_for("auto"),
        lambda: pt.zeros(2, device=name),
    ):
        with pytest.raises(PrototorchError) as error:
            call()
        assert isinstance(error.value, UsageError | TextError | BackendError)
        said.append(str(error.value))
    assert all(len(text.splitlines()[0]) < 300 for text in said), said
    assert all(f"Did you mean '{hint}'?" in text for text in said[:3]) or not hint, said
    assert said[2].startswith(f"{devices.ENV_VAR}: there is no device")


def test_a_colon_in_a_value_is_written_in_quotes(tmp_path):
    (tmp_path / "m.proto").write_text(TEXT.format("cuda:1").replace('"cuda:1"', "cuda:1"))
    with pytest.raises(TextError, match='A value with a colon is written in quotes: "cuda:1"'):
        pt.load_model(tmp_path / "m.proto")


def test_the_environment_may_say_auto(monkeypatch):
    monkeypatch.setenv(devices.ENV_VAR, "auto")
    monkeypatch.setattr(availability, "is_available", lambda: False)
    assert devices.backend_for("auto").name.startswith("cpu")


def test_caffes_set_device(two_gpus, monkeypatch):
    monkeypatch.setattr(SETTINGS, "device", "cpu")
    monkeypatch.setattr(SETTINGS, "gpu", 0)
    caffe.set_mode_gpu()
    caffe.set_device(1)
    current_backend()
    assert two_gpus == [1]
    for number in (2, -1):
        with pytest.raises(BackendError, match=rf"set_device\({number}\)"):
            caffe.set_device(number)


def test_the_variable_that_chose_a_device_is_named(monkeypatch):
    monkeypatch.setattr(availability, "query_driver", lambda: None)
    monkeypatch.setenv(devices.ENV_VAR, "cuda:1")
    with pytest.raises(
        BackendError, match=r"^PROTOTORCH_DEVICE: the device 'cuda:1' cannot be used: .*; or unset"
    ) as e:
        net().compile("sgd", "mse")
    assert "or use" not in str(e.value)
    with pytest.raises(BackendError, match=r"^the device 'cuda' cannot be used: .*; or use 'cpu'$"):
        net().compile("sgd", "mse", device="cuda")


def test_one_device_has_the_same_names_everywhere(tmp_path, monkeypatch):
    (tmp_path / "m.proto").write_text(TEXT.format("cpu:0"))
    pt.load_model(tmp_path / "m.proto").predict(np.zeros((1, 3), np.float32))
    monkeypatch.setenv(devices.ENV_VAR, "cpu:0")
    assert devices.backend_for("auto").name.startswith("cpu")
    for device in ("cpu:0", pt.device("cpu"), pt.device("cpu", 0)):
        model = net()
        model.compile("sgd", "mse", device=device)
        assert model.compile_block.device == str(device)
        assert pt.zeros(2, device=device).device == "cpu"
    assert pt.device(3) == pt.device("cuda", 3) == "cuda:3"


def test_a_device_object_names_a_gpu(two_gpus):
    model = net()
    model.compile("sgd", "mse", device=pt.device(1))
    assert two_gpus == [1]


@pytest.mark.parametrize(
    "call", [lambda: pt.device(-1), lambda: pt.zeros(2, device=-1), lambda: pt.device("cuda", 99999)]
)
def test_a_number_that_no_gpu_has(call):
    with pytest.raises(UsageError, match="GPUs have numbers from 0 to 9999") as error:
        call()
    assert "auto" not in str(error.value)


@pytest.mark.parametrize("name", ["CUDA", "gpu", "mps", "cuda:", "tpu:0", "meta"])
@pytest.mark.parametrize("make", [lambda: pt.zeros(2), lambda: pt.nn.Linear(2, 2)], ids=["tensor", "module"])
def test_to_says_that_there_is_no_such_device(make, name):
    with pytest.raises(UsageError, match=f"there is no device '{name}'") as error:
        make().to(name)
    assert ("Did you mean 'cuda'?" in str(error.value)) == (name in ("CUDA", "gpu", "cuda:"))


def test_to_takes_element_types_by_name_and_says_what_is_like_one():
    assert pt.zeros(2).to("float64").dtype == pt.float64
    with pytest.raises(UsageError, match=r"there is no element type 'flaot32'.*Did you mean 'float32'"):
        pt.zeros(2).to("flaot32")
