"""Define-by-run code on the GPU: training, in-place changes, views, state dicts, seeds, element types, pt.compile."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch import nn, optim
from prototorch.cuda.availability import unavailable_reason
from prototorch.utils.data import DataLoader, TensorDataset
from tests.cuda.fake import test_compile_on_device as compiled

if unavailable_reason():
    pytest.skip(unavailable_reason(), allow_module_level=True)

pytestmark = pytest.mark.usefixtures("eager_gpu")

# what pt.compile is to do on a device, without looking at the fake device's log
test_compiled_results_are_kept = compiled.test_results_are_kept_and_new_elements_are_read
test_compiled_not_contiguous = compiled.test_arguments_that_are_not_contiguous
test_compiled_gradients = compiled.test_gradients_flow_through_it
test_compiled_changes_in_place = compiled.test_changes_in_place_of_arguments_and_captured_tensors
test_compiled_weights_change = compiled.test_weights_that_others_change_between_the_calls
test_compiled_without_arguments = compiled.test_a_function_without_arguments_runs_where_its_tensors_are
test_compiled_random_numbers = compiled.test_random_numbers_are_those_of_the_uncompiled_function
test_compiled_scalars_of_the_host = compiled.test_scalars_of_the_host_beside_tensors_of_the_device
test_compiled_two_devices = compiled.test_tensors_of_two_devices_are_refused
test_compiled_for_both_devices = compiled.test_one_function_serves_both_devices


def make_net():
    pt.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.2),
        nn.Flatten(),
        nn.Linear(36, 16, bias=False),
        nn.LayerNorm(16),
        nn.GELU(),
        nn.Linear(16, 3),
    )


def make_batches(count=6, size=8):
    rng = np.random.default_rng(0)
    return [(rng.standard_normal((size, 1, 8, 8)).astype(np.float32), rng.integers(0, 3, size)) for _ in range(count)]


def train(device, method, options, is_compiled=False):
    net, loss_of, losses = make_net().to(device), nn.CrossEntropyLoss(), []
    updates = getattr(optim, method)(net.parameters(), lr=0.01, **options)

    def step(x, y):
        updates.zero_grad()
        loss = loss_of(net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        updates.step()
        return loss.detach()

    run = pt.compile(step) if is_compiled else step
    for x, y in make_batches():
        losses.append(run(pt.tensor(x).to(device), pt.tensor(y).to(device)).item())
    return losses, net


METHODS = [
    ("SGD", {"momentum": 0.9, "nesterov": True}), ("Adam", {}), ("AdamW", {"amsgrad": True}), ("RMSprop", {}),
    ("Adagrad", {}), ("NAdam", {}), ("RAdam", {}), ("Adamax", {}), ("Adadelta", {}), ("ASGD", {}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "options"), METHODS, ids=[m for m, _ in METHODS])
def test_a_training_step_is_that_of_the_cpu(method, options):
    """Also of a step that `pt.compile` makes one plan of. Rounding differs, and is divided by small gradients; no bias
    stands before a normalization, where its gradient is rounding alone."""
    expected, there = train("cpu", method, options)
    for is_compiled in (False, True):
        losses, here = train("cuda", method, options, is_compiled)
        np.testing.assert_allclose(losses, expected, rtol=5e-3)
        for (name, a), b in zip(here.state_dict().items(), there.state_dict().values(), strict=True):
            assert a.device.type == "cuda", name
            np.testing.assert_allclose(a.cpu().numpy(), b.numpy(), rtol=2e-2, atol=2e-3, err_msg=name)


def test_state_dicts_go_both_ways(tmp_path):
    _, net = train("cuda", "Adam", {})
    for device in ("cpu", "cuda"):
        pt.save(net.state_dict(), tmp_path / "net.pt")
        other = make_net().to(device)
        other.load_state_dict(pt.load(tmp_path / "net.pt"))
        x = pt.tensor(make_batches()[0][0])
        a, b = net.eval()(x.to("cuda")).cpu(), other.eval()(x.to(device)).cpu()
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-3, atol=1e-5)
        net = other.to("cuda")


def test_views_and_changes_in_place():
    x = pt.arange(24, dtype=pt.float32, device="cuda").reshape(4, 6)
    y = pt.arange(24, dtype=pt.float32).reshape(4, 6)
    for t in (x, y):
        t[1] += 10
        t.T[2].mul_(3)
        t[:, ::2] = -1.0
        t[t > 20] = 0
        t.diagonal().fill_(5)
        t.unsqueeze(0)[0, 2].copy_(pt.ones(6, device=t.device))
    assert x.cpu().tolist() == y.tolist()
    assert x[1:3].storage is not None
    assert x.t().contiguous().cpu().tolist() == y.t().tolist()


DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")


@pytest.mark.parametrize("dtype", DTYPES)
def test_element_types(dtype):
    values = [0, 1, 2, 3] if dtype != "bool" else [False, True, True, False]
    x, y = (pt.tensor(values, dtype=dtype, device=device) for device in ("cuda", "cpu"))
    assert str(x.dtype) == dtype
    for function in (
        lambda t: t + t,
        lambda t: t.sum(),
        lambda t: t.to("float32") * 2,
        lambda t: t == t.flip(0),
        lambda t: pt.where(t.to("bool"), t, t),
        lambda t: pt.cat([t, t]),
    ):
        a, b = function(x), function(y)
        assert a.dtype == b.dtype
        assert a.cpu().tolist() == b.tolist()
    assert x.cpu().dtype == y.dtype


def test_seeds():
    """The numbers of a device are the CPU's."""
    for draw in (
        lambda d: pt.rand(5, device=d),
        lambda d: pt.randn(5, device=d),
        lambda d: pt.randperm(9, device=d),
        lambda d: pt.randint(0, 100, (5,), device=d),
    ):
        pt.manual_seed(7)
        a = draw("cuda").cpu()
        pt.manual_seed(7)
        np.testing.assert_allclose(a.numpy(), draw("cpu").numpy(), rtol=1e-5)
    pt.cuda.manual_seed_all(7)
    state = pt.cuda.get_rng_state()
    a = pt.rand(3, device="cuda").tolist()
    pt.cuda.set_rng_state(state)
    assert pt.rand(3, device="cuda").tolist() == a


def test_a_data_loader_with_pinned_memory():
    """Its memory is used again only when the batch before is gone and copied."""
    x = pt.arange(4000, dtype=pt.float32).reshape(40, 100)
    loader = DataLoader(TensorDataset(x, pt.arange(40)), batch_size=8, pin_memory=True, num_workers=2)
    for _ in range(3):
        parts = [(a.to("cuda", non_blocking=True), b.to("cuda")) for a, b in loader]
        assert pt.cat([a for a, _ in parts]).cpu().tolist() == x.tolist()
        assert pt.cat([b for _, b in parts]).cpu().tolist() == list(range(40))


def test_a_generator_of_python_numbers_and_waiting():
    """Elements are read after the work that computes them."""
    x = pt.ones(1000, device="cuda")
    for _ in range(50):
        x = x * 1.01 + 0.5
    y = np.ones(1000, np.float32)
    for _ in range(50):
        y = y * np.float32(1.01) + np.float32(0.5)
    assert x[3].item() == pytest.approx(float(y[3]), rel=1e-5)
    pt.cuda.synchronize()
    assert x.mean().item() == pytest.approx(float(y.mean()), rel=1e-5)
