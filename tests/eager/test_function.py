"""Functions with their own gradient."""

import numpy as np
import pytest

from prototorch import ops
from prototorch.eager.function import Function
from prototorch.eager.functions.creation import tensor
from prototorch.eager.functions.gradients import grad
from prototorch.errors import UsageError
from prototorch.graph.ir import Graph
from prototorch.spec import Spec


class Cube(Function):
    @staticmethod
    def forward(ctx, a, power=3):
        ctx.save_for_backward(a)
        return a * a * a

    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        return g * 3 * a * a, None


def test_a_function_with_a_gradient_of_its_own():
    a = tensor([1.0, 2.0], requires_grad=True)
    y = Cube.apply(a, 3)
    assert y.numpy().tolist() == [1.0, 8.0]
    (first,) = grad(y.sum(), [a], create_graph=True)
    assert first.numpy().tolist() == [3.0, 12.0]
    (second,) = grad(first.sum(), [a])
    assert second.numpy().tolist() == [6.0, 12.0]


def test_a_function_of_several():
    class SumAndDifference(Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b, a - b

        @staticmethod
        def backward(ctx, g, h):
            return g + h, g - h

    a, b = tensor([1.0], requires_grad=True), tensor([5.0], requires_grad=True)
    total, _ = SumAndDifference.apply(a, b)
    (total * total).sum().backward()
    assert (a.grad.item(), b.grad.item()) == (12.0, 12.0)


def test_a_function_inside_a_composite_op():
    """Composites find their gradients by collecting entries; a function's entry is one of them."""
    a = tensor([0.5], requires_grad=True)
    ops.mish(Cube.apply(a, 3)).sum().backward()
    assert np.isfinite(a.grad.item())


@pytest.mark.parametrize(
    ("forward", "backward", "message"),
    [
        (lambda ctx, a: 3, None, "must return tensors, not a int"),
        (lambda ctx, a: a * 1, lambda ctx, g: (g, g), "must return 1 gradients, one for each input, not 2"),
        (
            lambda ctx, a: a * 1,
            lambda ctx, g: g.sum(),
            r"the gradient of input 0 must be a tensor \[2\], not a tensor \[\]",
        ),
        (lambda ctx, a: a * 1, lambda ctx, g: 1.0, "not a float"),
    ],
)
def test_mistakes_in_a_function(forward, backward, message):
    made = type("Wrong", (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})
    with pytest.raises(UsageError, match=message):
        made.apply(tensor([1.0, 2.0], requires_grad=True)).sum().backward()


def test_a_function_is_for_tensors():
    with pytest.raises(UsageError, match="for a layer in a plan write an Op"):
        Cube.apply(Graph().input("x", Spec((2,))))
