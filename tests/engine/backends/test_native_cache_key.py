"""The keys of cached kernels: they change with the sources that emit a kernel, and with no other."""

from __future__ import annotations

import pytest

cpu = pytest.importorskip("prototorch.engine.backends.cpu").cpu
cache_key = pytest.importorskip("prototorch.engine.backends.cpu.native.cache_key", exc_type=ImportError)
from prototorch.engine.backends.cpu.native.kernel_api import NativeKernel, collect_codes  # noqa: E402
from prototorch.ops.operators import OPS  # noqa: E402
from prototorch.spec import Spec  # noqa: E402

KERNELS = "prototorch.engine.backends.cpu.native.kernels."
NATIVE = "prototorch.engine.backends.cpu.native."


def keys(name: str, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict) -> set[bytes]:
    """The keys of all code that a step may need. Its shapes are used nowhere else, so that none of it is loaded yet."""
    kernel = cpu("native", strict=True).prepare(OPS[name], ins, outs, attrs)
    assert isinstance(kernel, NativeKernel)
    cache_key.clear_caches()  # sources are read anew
    return {cache_key.kernel_key(*request) for request in requests(kernel)}


def requests(kernel: NativeKernel) -> list[tuple[str, object, str]]:
    found: list[tuple[str, object, str]] = []
    with collect_codes() as codes:
        kernel.enumerate_variants()
    for code in codes:
        request = code.request
        found.append((request.name, request.params, request.module))
    assert found
    return found


def conv() -> set[bytes]:
    attrs = {"strides": (1, 1), "pads": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
    x, y = (Spec((3, n, 11, 7), "float32", "channels_last") for n in (5, 37))
    w = Spec((37, 5, 3, 3))
    return keys("conv", (x, w), (y,), attrs)


def relu() -> set[bytes]:
    return keys("relu", (Spec((7, 1234)),), (Spec((7, 1234)),), {})


@pytest.fixture
def edit(monkeypatch):
    """A function that makes the sources of modules read as if a line was added to them."""
    read, changed = cache_key.read_source, set()
    monkeypatch.setattr(cache_key, "read_source", lambda m: read(m) + b"# a line\n" * (m in changed))
    yield lambda *names: (changed.clear(), changed.update(names))
    monkeypatch.undo()
    cache_key.clear_caches()


@pytest.mark.parametrize("step", [conv, relu])
def test_an_unrelated_line_changes_no_key(edit, step):
    before = step()
    edit(
        KERNELS + "norm.layer_norm",
        KERNELS + "reduce.softmax",
        NATIVE + "thread_pool",
        NATIVE + "jit",
        NATIVE + "kernel_cache",
        "prototorch.ops.random",
        "prototorch.graph.plan",
        "prototorch",
    )
    assert step() == before


@pytest.mark.parametrize(
    "module", [KERNELS + "conv.direct", NATIVE + "ir_builder", NATIVE + "ir_values", NATIVE + "llvm_compiler"]
)
def test_a_line_of_what_emits_a_kernel_changes_its_key(edit, module):
    before = conv()
    edit(module)
    assert not conv() & before


def test_a_traced_op_belongs_to_the_key(edit):
    before, other = relu(), conv()
    edit(type(OPS["relu"]).__module__)
    assert not relu() & before
    assert conv() == other


def test_the_parameters_belong_to_the_key():
    assert cache_key.kernel_key("a", (1, "relu"), KERNELS + "conv.direct") != cache_key.kernel_key(
        "a", (2, "relu"), KERNELS + "conv.direct"
    )
