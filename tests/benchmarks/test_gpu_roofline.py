"""The prediction for a GPU counts what a step starts, from its plan and without a GPU."""

from __future__ import annotations

import pytest

pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")

from benchmarks import gpu_roofline
from benchmarks.gpu_rates import BANDWIDTH_SHARES, BEST, CARDS, SOBER, find_card, launch_seconds
from benchmarks.gpu_recording_device import LaunchCost, graph_launches
from benchmarks.gpu_roofline import predict
from benchmarks.gpu_roofline_page import page
from prototorch.cuda.cudnn.graph_desc import GraphDesc, TensorDesc

ONE = (("strides", (1, 1)), ("pads", ((0, 0), (0, 0))), ("dilation", (1, 1)))


def picture(n, c, h, w, last=True):
    strides = (h * w * c, 1, w * c, c) if last else (h * w * c, h * w, w, 1)
    return TensorDesc((n, c, h, w), strides, "bfloat16")


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("kind", [BEST, SOBER])
def test_a_launch_takes_the_longer_of_its_bytes_and_its_product(card, kind):
    rates = CARDS[card][kind]
    sweep = launch_seconds(LaunchCost("copy", 4e9), "bf16", rates)
    assert sweep == pytest.approx(rates.launch_seconds + 4e9 / rates.bytes_per_second)
    for dtype, precision in (("bfloat16", "bf16"), ("float32", "tf32"), ("float32", "fp32")):
        product = launch_seconds(LaunchCost("conv", 1e3, 10**12, dtype), precision, rates)
        assert product == pytest.approx(rates.product_seconds + 1e12 / rates.flops_per_second[precision])


def test_layer_norm_is_counted_at_its_own_rate():
    sober = CARDS["H200"][SOBER]
    assert launch_seconds(LaunchCost("layer_grad", 9e9), "bf16", sober) == pytest.approx(sober.launch_seconds + 1e-2)
    step = predict("transformer", "train", "bf16", 4)
    names = {launch.name for part in step.steps for launch in part.launches}
    assert names >= BANDWIDTH_SHARES.keys(), "the names are those of the kernels that are launched"


def test_sober_rates_are_lower_and_cards_are_found_by_name():
    for rates in CARDS.values():
        assert rates[SOBER].bytes_per_second < rates[BEST].bytes_per_second
        assert rates[SOBER].product_seconds > rates[BEST].product_seconds
    assert find_card("NVIDIA H100 80GB HBM3") is CARDS["H100"]
    with pytest.raises(ValueError, match="no rates of 'NVIDIA A100'; there are those of H200, H100"):
        find_card("NVIDIA A100")


def test_what_cudnn_starts_for_a_convolution():
    ports = (("x", picture(2, 8, 5, 5)), ("w", picture(16, 8, 3, 3)), ("y", picture(2, 16, 3, 3)))
    (one,) = graph_launches(GraphDesc("conv", ports, ("y",), ONE))
    assert one == LaunchCost("conv", 2 * (400 + 1152 + 288), 2 * 288 * 72, "bfloat16")
    ports = (("x", picture(2, 3, 5, 5)), ("w", picture(16, 3, 3, 3, last=False)), ("y", picture(2, 16, 3, 3)))
    names = [s.name for s in graph_launches(GraphDesc("conv", ports, ("y",), ONE))]
    assert names == ["conv", "pad x", "turn w"], "3 channels become 8, and the weights get their channels last"
    ports = (("x", picture(2, 16, 5, 5)), ("w", picture(16, 8, 3, 3)), ("y", picture(2, 16, 3, 3)))
    assert [s.name for s in graph_launches(GraphDesc("conv", ports, ("y",), ONE))] == ["conv", "split x", "split y"]


def test_a_step_of_a_net():
    found = predict("lenet", "train", "bf16", 8)
    pool = next(p for p in found.steps if p.step.layer == "max_pooling2d_1" and p.step.phase == "forward")
    assert [s.name for s in pool.launches] == ["max_pool"]
    assert pool.nbytes == pool.least.nbytes
    checks = ["check of the gradients", "check of the loss"]
    assert [p.step.layer for p in found.steps if p.step.kernel == "device"] == [*checks, "updates"]
    check = next(p for p in found.steps if p.step.layer == checks[0])
    assert check.nbytes == 2 * 431_080 + 4  # bfloat16 gradients of LeNet's weights, and the learning rate
    assert found.launches == sum(len(v) for v in found.kernels().values())
    assert found.sober_seconds == pytest.approx(sum(t for v in found.kernels().values() for _, t in v))
    assert found.rate == pytest.approx(8 / found.seconds)
    assert found.sober_rate == pytest.approx(8 / found.sober_seconds)
    assert found.sober_seconds > found.seconds
    assert predict("lenet", "train", "bf16", 8, "H100").sober_seconds > found.sober_seconds


def test_a_recurrent_layer_reads_its_input_once():
    found = predict("lstm", "infer", "fp32", 4)
    walk = next(p for p in found.steps if "sequence" in p.step.op)
    steps = [s for s in walk.launches if s.name == "step"]
    assert len(steps) == 50
    whole = 4 * 50 * 4 * 4 * 128
    assert sum(s.nbytes for s in steps) < 7 * whole, "not once for each of the 50 steps"


def test_the_command(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["gpu_roofline", "--rows", "two_layer", "--batch", "4", "--steps", "3"])
    gpu_roofline.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("| two_layer | train | bf16 | 4 |")
    assert "| layer | ops | kernels | MB | sober ms |" in lines


def test_the_page():
    lines = page(["two_layer"], [4]).splitlines()
    assert sum(line.startswith("| two_layer | train | bf16 | 4 |") for line in lines) == 2  # on each card
    assert any(line.startswith("| memory | 4.0 TB/s | 2.8 TB/s | 3.0 TB/s | 2.1 TB/s |") for line in lines)
