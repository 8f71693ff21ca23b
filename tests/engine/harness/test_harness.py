"""The harness finds what it is there to find: each layer below has one mistake."""

import numpy as np
import pytest

from prototorch import ops
from prototorch.engine.harness import CHECKS, check_layer, temporary_definitions
from prototorch.errors import UsageError
from prototorch.layers import Dense
from prototorch.layers.base import Layer
from prototorch.ops.core import Op
from prototorch.schema import example


@pytest.fixture(autouse=True)
def _forgotten():
    with temporary_definitions():
        yield


def broken(function, inputs=((3,),), outputs=1, **extra):
    """A layer whose call is this function."""

    class Broken(Layer):
        """A layer with a mistake."""

        examples = [example("Broken { }", inputs=inputs, **extra)]

        def output_count(self):
            return outputs

        def call(self, ctx, *x):
            return function(ctx, *x)

    return Broken


def unary(derivative, rule=lambda x: x, body=lambda xp, x: x * x * x):
    """An op for x**3."""

    class Cube(Op):
        derivatives = (derivative,)

        def infer_spec(self, x):
            return rule(x)

        def reference(self, xp, x):
            return body(xp, x)

    return Cube()


def fails(layer, check, message):
    with pytest.raises(AssertionError, match=message):
        check_layer(layer, only=[check])


def test_a_right_layer_passes():
    cube = unary(lambda g, y, x: 3 * g * x * x)
    assert check_layer(broken(lambda ctx, x: cube(x))) == len(CHECKS)


def test_a_wrong_derivative():
    cube = unary(lambda g, y, x: 2 * g * x * x)
    fails(broken(lambda ctx, x: cube(x)), "gradients", "the first derivative")


def test_a_wrong_second_derivative():
    cube = unary(lambda g, y, x: 3 * g * ops.stop_gradient(x) * x)
    fails(broken(lambda ctx, x: cube(x)), "gradients", "the second derivative")


def test_a_wrong_weight_gradient():
    scale = unary(lambda g, y, x: g * 0)
    layer = broken(lambda ctx, x: x * scale(ctx.weight("scale", (3,), "ones")))
    fails(layer, "gradients", "the first derivative")


def test_a_kink_alone_is_no_mistake():
    check_layer(broken(lambda ctx, x: ops.maximum(x, 0.0)), only=["gradients"])


def test_a_rule_that_says_another_shape_than_the_body():
    wide = unary(None, body=lambda xp, x: xp.sum(x, axis=1, keepdims=True))
    fails(broken(lambda ctx, x: wide(x)), "shapes", "infer_spec gives float32")


def test_an_element_that_is_not_a_number():
    fails(broken(lambda ctx, x: x * float("nan")), "shapes", "not finite")


def test_a_lost_batch_dimension():
    fails(broken(lambda ctx, x: ops.sum(x, axis=0)[:2]), "shapes", "batch dimension")


def test_a_wrong_number_of_outputs():
    fails(broken(lambda ctx, x: (x, x)), "shapes", "the number of outputs is not")


def test_samples_that_see_each_other():
    fails(broken(lambda ctx, x: x - ops.mean(x, axis=0)), "batched_is_unbatched", "sample 0")


def test_hidden_state():
    rng = np.random.default_rng(0)
    fails(broken(lambda ctx, x: x * float(rng.random())), "plan_is_tape", "output 0")


def test_a_running_weight_that_is_not_finite():
    def call(ctx, x):
        ctx.weight("total", (3,), "zeros", trainable=False)
        ctx.update("total", ops.mean(x, axis=0) * float("inf"))
        return x

    fails(broken(call), "shapes", "not finite after a step")


def test_an_example_with_a_mask_is_tried_with_it():
    def call(ctx, x):
        return x * ops.cast(ops.expand_dims(ctx.mask(x), -1), dtype=x.dtype)

    layer = broken(call, inputs=[(4, 2)], mask=(1, 4, 2))
    layer.mask_policy = "use"
    assert check_layer(layer) == len(CHECKS)


def test_a_layer_without_examples():
    class Bare(Layer):
        def call(self, ctx, x):
            return x

    with pytest.raises(UsageError, match="Bare has no examples"):
        check_layer(Bare)


def test_an_unknown_check():
    with pytest.raises(UsageError, match="Did you mean 'gradients'"):
        check_layer(Dense, only=["gradient"])
