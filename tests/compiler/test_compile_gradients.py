"""Gradients through a compiled function, from outside of it."""

import numpy as np
import pytest

import prototorch as pt
from prototorch import ops
from prototorch.eager.grad_mode import no_grad
from prototorch.eager.in_place import assign
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError
from tests.compiler.comparing import normal


def mixed(w: Tensor, b: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    h = ops.tanh(x @ w + b)
    return h * ops.exp(h), h.sum()


def test_gradients_flow_through_a_compiled_function() -> None:
    w, b = normal(4, 3, grad=True), normal(3, grad=True)
    compiled = pt.compile(lambda x: mixed(w, b, x))
    for k in range(4):
        x = normal(5, 4, grad=k % 2 == 0)
        found = []
        for call in (compiled, lambda x: mixed(w, b, x)):
            for t in (w, b, x):
                t.grad = None
            y, total = call(x)
            (y * y).sum().backward(retain_graph=True)
            total.backward()
            found.append([None if t.grad is None else t.grad.numpy().copy() for t in (w, b, x)])
        for got, want in zip(*found, strict=True):
            if want is None:
                assert got is None
            else:
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_gradients_of_one_output_alone_and_of_intermediate_arguments() -> None:
    w = normal(3, grad=True)
    compiled = pt.compile(lambda x: (x * w, ops.exp(x)))
    x = normal(3, grad=True)
    first, _ = compiled(x * 2)
    (gradient,) = pt.grad(first.sum(), [x])
    np.testing.assert_allclose(gradient.numpy(), 2 * w.numpy(), rtol=1e-6)
    _, second = compiled(x * 2)
    found = pt.grad(second.sum(), [x, w], allow_unused=True)
    np.testing.assert_allclose(found[0].numpy(), 2 * np.exp(2 * x.numpy()), rtol=1e-5)
    assert found[1] is None or not found[1].numpy().any()


def test_no_gradient_is_prepared_where_none_is_recorded() -> None:
    w = normal(3, grad=True)
    compiled = pt.compile(lambda x: x * w)
    with no_grad():
        assert not compiled(normal(3)).requires_grad
    assert compiled(normal(3)).requires_grad
    assert compiled.num_plans == 2


def test_errors_of_the_backward_pass() -> None:
    w = normal(3, grad=True)
    compiled = pt.compile(lambda x: (x * w * w).sum())
    y = compiled(normal(3))
    with no_grad():
        assign(w, w * 2)
    with pytest.raises(UsageError, match="changed in place since"):
        y.backward()
    y = compiled(normal(3))
    y.backward()
    with pytest.raises(UsageError, match="second time"):
        y.backward()
    with pytest.raises(UsageError, match="cannot be differentiated again"):
        pt.grad(compiled(normal(3)), [w], create_graph=True)

    @pt.compile
    def whole(x: Tensor) -> Tensor:
        loss = (x * w).sum()
        loss.backward()
        return loss

    with pytest.raises(UsageError, match=r"whole, a compiled function: .*second time"):
        whole(normal(3)).backward()


def test_a_new_value_of_a_state_and_the_gradient_of_the_old_one() -> None:
    w, running = normal(3, grad=True), normal(3)

    def function(x: Tensor) -> Tensor:
        y = x * w * running.clone()
        with no_grad():
            assign(running, running * 0.5)
        return y

    compiled = pt.compile(function)
    for _ in range(3):
        x, old = normal(3), running.numpy().copy()
        w.grad = None
        compiled(x).sum().backward()
        np.testing.assert_allclose(w.grad.numpy(), x.numpy() * old, rtol=1e-5)
        np.testing.assert_allclose(running.numpy(), old * 0.5)


@pytest.mark.parametrize("view", ["reshape(6)", "T", "[0]"])
def test_a_result_may_be_a_view(view):
    """The tensor that it is a view of is made inside, and nobody else holds it: no plan is made anew."""
    x = pt.randn(2, 3).requires_grad_()
    function = {"reshape(6)": lambda t: (t * 2).reshape(6), "T": lambda t: (t * 2).T, "[0]": lambda t: (t * 2)[0]}[view]
    compiled = pt.compile(function)
    for _ in range(8):
        compiled(x).sum().backward()
    assert compiled.num_plans == 2  # with a first gradient, and with one to add to
