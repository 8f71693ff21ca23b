"""Mistakes in the use of gradients that PyTorch refuses are refused here, too, with what to write."""

from __future__ import annotations

import pytest

import prototorch as pt
from prototorch.errors import GradientError, UsageError
from tests.autograd.programs import assert_same


def leaf(m, *values):
    return m.tensor(list(values) or [1.0, -2.0, 3.0], dtype=m.float64, requires_grad=True)


def changed_before_backward(m):
    x = leaf(m)
    y = x.exp()
    y.add_(1)
    y.sum().backward()


def detach_shares_the_version(m):
    x = leaf(m)
    y = x.exp()
    y.detach().zero_()
    y.sum().backward()


def an_expanded_tensor(m):
    m.tensor([1.0]).expand(3).add_(1)


def a_gradient_in_place_of_a_view_of_a_leaf(m):
    x = leaf(m)
    x[0] = 5


MISTAKES = {
    "in place on a leaf": (lambda m: leaf(m).add_(1), "no_grad"),
    "the operator in place on a leaf": (lambda m: exec("w -= 0.1", {"w": leaf(m)}), "no_grad"),
    "a view of a leaf": (a_gradient_in_place_of_a_view_of_a_leaf, "a view of a leaf|a leaf tensor"),
    "changed before backward": (changed_before_backward, "gradient of exp needs its output 0"),
    "changed through detach": (detach_shares_the_version, "gradient of exp needs its output 0"),
    "an expanded tensor": (an_expanded_tensor, "share one memory location"),
    "backward twice": (lambda m: [(y := (leaf(m) ** 2).sum()).backward(), y.backward()], "retain_graph=True"),
    "backward of several elements": (lambda m: (leaf(m) * 2).backward(), "reduce it to a scalar"),
    "backward without a gradient": (lambda m: m.tensor([1.0]).sum().backward(), "requires_grad=True"),
    "truth of several elements": (lambda m: bool(leaf(m)), "bool"),
    "a gradient of another shape": (lambda m: setattr(leaf(m), "grad", m.ones(2)), "expected a tensor"),
    "a gradient of another dtype": (lambda m: setattr(leaf(m), "grad", m.ones(3, dtype=m.int64)), "expected a tensor"),
    "a gradient that is no tensor": (lambda m: setattr(leaf(m), "grad", [1.0]), "a tensor or None"),
    "integers with a gradient": (lambda m: m.tensor([1], requires_grad=True), "int64"),
    "integers with a gradient later": (lambda m: m.tensor([1]).requires_grad_(), "int64"),
    "requires_grad of a result": (lambda m: setattr(leaf(m) * 2, "requires_grad", False), "detach"),
    "a seed of another shape": (lambda m: (leaf(m) * 2).backward(m.ones(2, dtype=m.float64)), r"shape \[3\]"),
    "an unused input": (lambda m: m.autograd.grad(leaf(m).sum(), leaf(m)), "no output depends on input 0"),
    "an input without a gradient": (lambda m: m.autograd.grad(leaf(m).sum(), m.ones(3)), "input 0 does not require"),
    "a hook without a gradient": (lambda m: m.ones(3).register_hook(print), "does not require a gradient"),
    "retain_grad without a gradient": (lambda m: m.ones(3).retain_grad(), "does not require a gradient"),
    "a hook of another shape": (lambda m: [(x := leaf(m)).register_hook(lambda g: g[:2]), (x * 2).sum().backward()],
                                "a hook must return"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_that_pytorch_refuses(name):
    program, message = MISTAKES[name]
    assert_same(program, expect_error=True)
    with pytest.raises((GradientError, UsageError), match=message):
        program(pt)


def test_reading_grad_of_a_result_is_warned_of():
    x = leaf(pt)
    y = x * 2
    y.sum().backward()
    with pytest.warns(UserWarning, match="no leaf.*retain_grad"):
        assert y.grad is None


def test_errors_of_gradients_are_runtime_errors():
    assert issubclass(GradientError, RuntimeError)
