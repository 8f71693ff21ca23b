"""`prototorch time --device cpu,cuda`: several devices side by side. What is tested is what is said, never a time."""

from __future__ import annotations

import json
import os
import re

import pytest

from prototorch.measure.device_comparison import DeviceColumn, DeviceComparison
from tests.cli.test_time import quick, shell  # noqa: F401 - fixtures
from tests.cuda.fake.fake_cuda import use_fake_cuda

pytestmark = pytest.mark.usefixtures("quick")
SHORT = ("lenet", "--batch", "2", "--steps", "1")


def test_two_devices_are_side_by_side_with_what_their_numbers_hold_for(shell):  # noqa: F811
    with use_fake_cuda():
        code, out, err = shell("time", *SHORT, "--device", "cpu,cuda", "--set", "compile.precision=bf16")
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0] == "lenet: training step, batch 2"
    by_name = {re.split(r"  +", line.strip())[0]: re.split(r"  +", line.strip())[1:] for line in lines if line}
    assert by_name["runs on"][1] == "cuda (fake)"
    assert by_name["precision"] == ["fp32", "bf16"]
    assert by_name["threads"][1] == "-"
    assert by_name["numpy"][1] == "-"
    cpu, gpu = map(float, by_name["whole step, ms"])
    first, ratio = map(float, by_name["times as fast as cpu"])
    assert first == 1
    assert ratio == pytest.approx(cpu / gpu, rel=0.02)
    assert len(by_name["conv2d_1"]) == 3, "type, and the milliseconds on each device"


def test_as_json(shell):  # noqa: F811
    with use_fake_cuda():
        code, out, _ = shell("time", *SHORT, "--device", "cuda,cpu", "--json")
    assert code == 0
    found = json.loads(out)
    gpu, cpu = found["devices"]
    assert (gpu["device"], cpu["device"]) == ("cuda", "cpu")
    assert gpu["settings"]["precision"] == "tf32"
    assert found["times_as_fast"]["cpu"] == pytest.approx(gpu["seconds"] / cpu["seconds"])
    assert {layer["name"] for layer in gpu["layers"]} >= {"conv2d_1", "dense_1"}


def test_with_detail_the_steps_of_each_device_follow(shell):  # noqa: F811
    with use_fake_cuda():
        code, out, _ = shell("time", *SHORT, "--device", "cpu,cuda", "--detail", "--phase", "predict")
    assert code == 0
    assert "lenet: prediction, batch 2, cuda (fake)" in out


def test_a_device_that_is_not_there_has_a_line_that_says_why(shell):  # noqa: F811
    code, out, err = shell("time", *SHORT, "--device", "cpu,cuda")
    assert code == 8, "as where it is named alone"
    assert "whole step, ms" in out, "the other one is measured all the same"
    assert re.search(r"^cuda: not measured: the device 'cuda' cannot be used: ", out, re.MULTILINE)
    assert "cannot be used" in err


def test_as_json_where_one_is_not_there(shell):  # noqa: F811
    code, out, _ = shell("time", *SHORT, "--device", "cuda,cpu", "--json")
    assert code == 8
    gpu, cpu = json.loads(out)["devices"]
    assert "cannot be used" in gpu["error"]
    assert cpu["seconds"] > 0


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("--device", "cpu,cpu"), 2, "'cpu' is there twice, expected each device once"),
        (("--device", "cpu,gpu"), 2, "Did you mean 'cuda'?"),
        (("--device", "cpu,"), 2, "there is no device ''"),
        (("--device", "auto,cpu"), 2, "'cpu' is the device that 'auto' is here"),
        (("--device", "cpu,cuda", "--against", "torch"), 2, "--against compares on one device"),
    ],
)
def test_wrong_usage(shell, monkeypatch, args, code, message):  # noqa: F811
    monkeypatch.setenv("PROTOTORCH_DEVICE", "cpu")
    found, _, err = shell("time", *SHORT, *args)
    assert found == code, err
    assert message in err


def test_where_no_device_can_be_used_there_is_no_table():
    error = RuntimeError("no driver")
    lines = list(DeviceComparison([DeviceColumn("cuda", error=error)]).lines())
    assert lines == ["cuda: not measured: no driver"]


def test_a_gpu_without_cudnn_is_a_column_of_its_own(shell, monkeypatch):  # noqa: F811
    monkeypatch.delenv("PROTOTORCH_CUDNN", raising=False)
    with use_fake_cuda():
        code, out, err = shell("time", *SHORT, "--device", "cpu,cuda", "--without-cudnn", "--json")
    assert code == 0, err
    devices = json.loads(out)["devices"]
    assert [d["device"] for d in devices] == ["cpu", "cuda", "cuda, without cuDNN"]
    assert [d["settings"]["runs on"] for d in devices[1:]] == ["cuda (fake)", "cuda (fake, without cuDNN)"]
    assert "PROTOTORCH_CUDNN" not in os.environ


def test_without_cudnn_is_about_a_gpu(shell):  # noqa: F811
    code, _, err = shell("time", *SHORT, "--device", "cpu", "--without-cudnn")
    assert code == 2
    assert "--without-cudnn is about a GPU" in err
