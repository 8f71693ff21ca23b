"""PyTorch's switches of how tensors on a GPU are computed, on the stand-in; memory that is missing or pinned."""

import pytest

import prototorch as pt
from prototorch.eager import compute_modes, interpreter
from prototorch.errors import BackendError, ResourceError, UsageError
from tests.cuda.fake.fake_cuda import use_fake_cuda


@pytest.fixture(autouse=True)
def fresh_modes(monkeypatch):
    monkeypatch.setattr(compute_modes.MODES, "__dict__", vars(compute_modes.ComputeModes()))


@pytest.fixture
def gpu():
    with use_fake_cuda(memory=1 << 24):
        yield


def settings():
    return interpreter.interpreter_for("cuda").backend.device.settings


def test_products_are_float32_as_pytorchs_by_default(gpu):
    torch = pytest.importorskip("torch")
    pt.zeros(2, device="cuda")
    assert settings().precision.name == "fp32"
    assert not settings().precision.tf32
    assert not settings().deterministic
    assert not settings().autotune
    assert pt.get_float32_matmul_precision() == torch.get_float32_matmul_precision() == "highest"
    assert pt.backends.cuda.matmul.allow_tf32 == torch.backends.cuda.matmul.allow_tf32 is False
    assert pt.backends.cudnn.benchmark == torch.backends.cudnn.benchmark is False
    assert pt.backends.cudnn.deterministic == torch.backends.cudnn.deterministic is False
    assert not pt.are_deterministic_algorithms_enabled()


def allow_by_matmul():
    pt.backends.cuda.matmul.allow_tf32 = True


def allow_by_cudnn():
    pt.backends.cudnn.allow_tf32 = True


@pytest.mark.parametrize(
    "allow",
    [
        lambda: pt.set_float32_matmul_precision("high"),
        lambda: pt.set_float32_matmul_precision("medium"),
        allow_by_matmul,
        allow_by_cudnn,
    ],
)
def test_tf32_where_it_is_allowed(gpu, allow):
    allow()
    assert pt.backends.cuda.matmul.allow_tf32
    assert pt.backends.cudnn.allow_tf32
    assert pt.get_float32_matmul_precision() in ("high", "medium")
    pt.ones(2, 2, device="cuda") @ pt.ones(2, 2, device="cuda")
    assert settings().precision.name == "tf32"
    with pytest.raises(UsageError, match="tensors are on cuda:0 already, which computes in TF32"):
        pt.set_float32_matmul_precision("highest")
    with pytest.raises(UsageError, match="at the start of the program"):
        pt.backends.cuda.matmul.allow_tf32 = False
    assert pt.get_float32_matmul_precision() != "highest"


def test_allowing_tf32_later_keeps_float32(gpu):
    pt.zeros(2, device="cuda")
    pt.set_float32_matmul_precision("high")
    assert settings().precision.name == "fp32"
    pt.set_float32_matmul_precision("highest")


def test_deterministic_algorithms_and_benchmark(gpu):
    pt.use_deterministic_algorithms(True, warn_only=True)
    pt.backends.cudnn.benchmark = True
    assert pt.are_deterministic_algorithms_enabled()
    assert pt.backends.cudnn.deterministic
    pt.zeros(2, device="cuda")
    assert settings().deterministic
    assert settings().autotune
    pt.backends.cudnn.deterministic = False


def test_deterministic_after_the_first_tensor_is_refused(gpu):
    pt.zeros(2, device="cuda")
    for ask in (
        lambda: pt.use_deterministic_algorithms(True),
        lambda: setattr(pt.backends.cudnn, "deterministic", True),
    ):
        with pytest.raises(UsageError, match="without equal bits in every run"):
            ask()
    assert not pt.are_deterministic_algorithms_enabled()


def test_without_a_gpu_the_switches_are_kept():
    pt.backends.cudnn.benchmark = True
    pt.backends.cudnn.deterministic = True
    pt.set_float32_matmul_precision("high")
    assert (pt.ones(2, 2) @ pt.ones(2, 2)).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    pt.set_float32_matmul_precision("highest")
    assert not pt.backends.cuda.matmul.allow_tf32


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: pt.set_float32_matmul_precision("hihg"), UsageError, "expected 'highest', 'high', 'medium', got 'hihg'"),
    (lambda: pt.use_deterministic_algorithms("yes"), UsageError, "expected True or False, got 'yes'"),
    (lambda: setattr(pt.backends.cudnn, "benchmark", 1), UsageError, "expected True or False, got 1"),
    (lambda: setattr(pt.backends.cudnn, "benchmarks", True), AttributeError, "no switch 'benchmarks'"),
    (lambda: setattr(pt.backends.cuda.matmul, "allow_tf23", True), AttributeError, "there is allow_tf32"),
    (lambda: pt.backends.cudnn.version, AttributeError, "no attribute 'version'"),
])  # fmt: skip
def test_wrong_values_and_names(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_out_of_memory_of_tensors(gpu):
    x = pt.zeros(1024, device="cuda")
    with pytest.raises(
        pt.cuda.OutOfMemoryError, match=r"the GPU has no memory for 32.0 MiB; .* are free of 16.0 MiB"
    ) as e:
        pt.zeros(8 << 20, device="cuda")
    assert isinstance(e.value, ResourceError)
    assert isinstance(e.value, RuntimeError)
    with pytest.raises(RuntimeError, match="the GPU has no memory"):
        x.reshape(-1, 1) + pt.zeros(1, 8192, device="cuda")
    assert (x + 1).sum().item() == 1024


def test_pinned_memory(gpu):
    x = pt.arange(12.0).reshape(3, 4)
    assert not x.is_pinned()
    y = x.pin_memory()
    assert y.is_pinned()
    assert y is not x
    assert y.pin_memory() is y
    assert y[1].is_pinned()
    assert y.tolist() == x.tolist()
    assert not (y + 1).is_pinned()
    assert y.to("cuda").tolist() == x.tolist()


def test_pinned_memory_without_a_gpu():
    try:
        interpreter.interpreter_for("cuda")
    except BackendError:
        x = pt.ones(2)
        assert x.pin_memory() is x
        assert not x.is_pinned()
