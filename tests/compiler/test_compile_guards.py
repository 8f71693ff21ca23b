"""What a compiled function reads outside of its arguments: after each change it gives what the function gives."""

import types
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import prototorch as pt
from prototorch import nn
from prototorch.errors import UsageError
from tests.compiler.comparing import normal, same

FACTOR = 2.0
SCRIPT = """
import prototorch as pt
from prototorch import nn

class Block(nn.Module):
    limit = 3.0

    def __init__(self):
        super().__init__()
        self.scale = 2.0
        self.part = nn.Linear(2, 2)

    def forward(self, x):
        return self.part(x).clamp(-self.limit, self.limit) * self.scale

    def repeat(self, n):
        return n * 2
"""


@pytest.fixture(params=["__main__", "layers", "_layers"])
def block_class(request) -> Any:
    """The class of a module as scripts, modules and private modules define it."""
    names = {"__name__": request.param}
    exec(SCRIPT, names)
    return names["Block"]


def changes_of(block: Any) -> list[Callable[[], Any]]:
    return [
        lambda: setattr(block, "scale", 4.0),
        lambda: block.register_forward_hook(lambda module, args, y: y + 1),
        lambda: block.part.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
        lambda: setattr(block, "part", nn.Identity()),
        lambda: setattr(type(block), "limit", 0.1),
        lambda: setattr(block, "limit", 9.0),
        lambda: setattr(block, "forward", lambda x: x * 100),
        lambda: delattr(block, "forward"),
    ]


@pytest.mark.parametrize("form", ["module", "closure", "child", "method", "partial"])
def test_changes_of_a_module_are_seen(block_class, form) -> None:
    block, x = block_class(), pt.tensor([[0.5, -2.0]])
    forms = {
        "module": block,
        "closure": lambda x: block(x),
        "child": nn.Sequential(nn.Identity(), block),
        "method": block.__call__,
        "partial": partial(lambda factor, x: block(x) * factor, 2),
    }
    function = forms[form]
    compiled = pt.compile(function)
    same(compiled(x), function(x))
    for change in changes_of(block):
        before = function(x).detach().numpy().copy()
        change()
        same(compiled(x), function(x))
        assert not np.array_equal(before, function(x).detach().numpy())
        compiled(x)  # the lists of hooks are made at a first call
        plans = compiled.num_plans
        same(compiled(x), function(x))
        assert compiled.num_plans == plans


def test_methods_and_attributes_of_a_compiled_module_are_the_module_s(block_class) -> None:
    block, x = block_class(), normal(3, 2)
    compiled = pt.compile(block)
    same(compiled(x), block(x))
    assert compiled.repeat(2) == 4
    same(compiled.forward(x), block(x))
    assert len(list(compiled.parameters())) == 2
    compiled.scale = 5.0
    assert block.scale == 5.0
    same(compiled(x), block(x))
    compiled.extra = 1
    del compiled.extra
    assert not hasattr(block, "extra")


class Slots:
    __slots__ = ("later", "value")

    def __init__(self) -> None:
        self.value = 2.0


class Plain:
    value = 2.0

    def method(self) -> float:
        return self.value


def scaled(x: Any) -> Any:
    return (lambda y: y * FACTOR)(x)


def test_changes_of_what_functions_and_objects_hold_are_seen(monkeypatch) -> None:
    slots, plain, own, names = Slots(), Plain(), Plain(), types.SimpleNamespace(value=2.0)
    config, bound = types.ModuleType("config"), own.method
    config.value = 2.0
    x = normal(2)
    cases = [
        (lambda x: x * slots.value, lambda: setattr(slots, "value", 3.0)),
        (lambda x: x * getattr(slots, "later", 1.0), lambda: setattr(slots, "later", 3.0)),
        (lambda x: x * plain.value, lambda: setattr(plain, "value", 3.0)),
        (lambda x: x * bound(), lambda: setattr(own, "value", 3.0)),
        (lambda x: x * names.value, lambda: setattr(names, "value", 3.0)),
        (lambda x: x * Plain.value, lambda: monkeypatch.setattr(Plain, "value", 5.0)),
        (lambda x: scaled(x), lambda: monkeypatch.setitem(globals(), "FACTOR", 7.0)),
    ]
    for k, (function, change) in enumerate(cases):
        compiled = pt.compile(function)
        before = compiled(x).numpy()
        change()
        same(compiled(x), function(x))
        assert not np.array_equal(before, function(x).numpy()), k


ELEMENT_READERS = {
    "from_numpy": pt.from_numpy,
    "tensor": pt.tensor,
    "as_tensor": pt.as_tensor,
    "part": lambda a: pt.from_numpy(a[1:] * 2)[:1],
    "number": lambda a: float(a[0]),
}


@pytest.mark.parametrize("make", ELEMENT_READERS.values(), ids=ELEMENT_READERS)
def test_elements_of_arrays_are_compared(make) -> None:
    array, x = np.ones(3, np.float32), pt.ones(1)
    compiled = pt.compile(lambda x: x + make(array))
    same(compiled(x), x + make(array))
    array[:] = 5
    same(compiled(x), x + make(array))


def test_arrays_too_large_to_compare_are_refused_as_tensors() -> None:
    array, x = np.ones(100_000, np.float32), pt.ones(1)
    for make in (pt.from_numpy, pt.as_tensor, lambda a: pt.from_numpy(a[5:])):
        with pytest.raises(UsageError, match=r"the array array \[100000\] of NumPy.*make the tensor outside"):
            pt.compile(lambda x, make=make: x + make(array))(x)
    outside = pt.from_numpy(array)
    compiled = pt.compile(lambda x: x + outside)
    compiled(x)
    array[:] = 5
    same(compiled(x), x + outside)


STEP_PROGRAM = """
import prototorch as torch
from prototorch import nn, optim

net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = optim.Adam(net.parameters(), lr=1e-2)

@torch.compile
def step(x, y):
    loss = (net(x) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss

def fit(x, y):
    optimizer.step
    return step(x, y)
"""


@pytest.mark.parametrize("entry", ["step", "fit"])
def test_a_global_function_of_an_attribute_s_name_is_no_part_of_what_it_reads(entry) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(STEP_PROGRAM, names)
    x, y = normal(8, 4), normal(8, 1)
    call = pt.compile(names["fit"]) if entry == "fit" else names["step"]
    losses = [call(x, y).item() for _ in range(50)]
    assert losses[-1] < losses[0]
    assert call.num_plans <= 2
    if entry == "fit":  # calls of the inner function alone change nothing of the outer one
        plans = call.num_plans
        for _ in range(3):
            names["step"](x, y)
            call(x, y)
        assert call.num_plans == plans
