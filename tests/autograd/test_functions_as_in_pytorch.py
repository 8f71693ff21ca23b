"""`Function` in all its forms: the same programs with PyTorch and here."""

from __future__ import annotations

import pytest

from tests.autograd.programs import assert_same


def leaf(m, *values):
    return m.tensor(list(values) or [1.0, -2.0, 3.0], dtype=m.float64, requires_grad=True)


def make(m, **methods):
    return type("Own", (m.autograd.Function,), {k: staticmethod(v) for k, v in methods.items()})


def saves_inputs_and_outputs(m):
    def forward(ctx, x, y):
        z = x * y
        w = z.exp()
        ctx.save_for_backward(x, None, w, y)
        return w

    def backward(ctx, g):
        x, nothing, w, y = ctx.saved_tensors
        assert nothing is None
        return g * w * y, g * w * x

    own = make(m, forward=forward, backward=backward)
    x, y = leaf(m), leaf(m, 0.1, 0.2, 0.3)
    (first,) = m.autograd.grad(own.apply(x, y).sum(), x, create_graph=True)
    (second, mixed) = m.autograd.grad(first.sum(), (x, y))
    return first, second, mixed


def with_setup_context(m):
    def forward(x, power=2):
        return x**power

    def setup_context(ctx, inputs, output):
        x, power = inputs
        ctx.power = power
        ctx.save_for_backward(x)

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.power * x ** (ctx.power - 1), None

    own = make(m, forward=forward, setup_context=setup_context, backward=backward)
    x = leaf(m)
    own.apply(x, 3).sum().backward()
    return x.grad


def non_tensor_arguments(m):
    needs = []

    def forward(ctx, x, factor, name, y):
        ctx.factor = factor
        return x * factor + y

    def backward(ctx, g):
        needs.append(ctx.needs_input_grad)
        return g * ctx.factor, None, None, None

    own = make(m, forward=forward, backward=backward)
    x, y = leaf(m), m.tensor([1.0, 1.0, 1.0], dtype=m.float64)
    own.apply(x, 4.0, "name", y).sum().backward()
    return x.grad, [list(n) for n in needs], y.grad


def none_for_a_needed_gradient(m):
    own = make(m, forward=lambda ctx, x, y: x + y, backward=lambda ctx, g: (g, None))
    x, y = leaf(m), leaf(m)
    own.apply(x, y).sum().backward()
    return x.grad, y.grad


def trailing_nones(m):
    own = make(m, forward=lambda ctx, x: x * 2, backward=lambda ctx, g: (g * 2, None, None))
    x = leaf(m)
    own.apply(x).sum().backward()
    return x.grad


def too_few_gradients(m):
    own = make(m, forward=lambda ctx, x, y: x * y, backward=lambda ctx, g: g)
    own.apply(leaf(m), leaf(m)).sum().backward()


def a_gradient_for_a_number(m):
    own = make(m, forward=lambda ctx, x, k: x * k, backward=lambda ctx, g: (g, g))
    own.apply(leaf(m), 2.0).sum().backward()


def a_gradient_that_is_summed(m):
    own = make(m, forward=lambda ctx, x: x * 1, backward=lambda ctx, g: g.expand(4, 3))
    x = leaf(m)
    own.apply(x).sum().backward()
    return x.grad


def a_gradient_of_another_shape(m):
    own = make(m, forward=lambda ctx, x: x * 1, backward=lambda ctx, g: g[:2])
    own.apply(leaf(m)).sum().backward()


def a_gradient_of_another_dtype(m):
    own = make(m, forward=lambda ctx, x: x * 1, backward=lambda ctx, g: g.float() * 3)
    x = leaf(m)
    own.apply(x).sum().backward()
    return x.grad, str(x.grad.dtype).split(".")[-1]


def several_outputs(m):
    seen = []

    def forward(ctx, x):
        return x * 2, x * 3, 7

    def backward(ctx, *grads):
        seen.append([g is None for g in grads])
        return 2 * grads[0] + 3 * grads[1]

    own = make(m, forward=forward, backward=backward)
    x = leaf(m)
    _, b, n = own.apply(x)
    (b * 5).sum().backward()
    return x.grad, n, seen


def without_materialized_gradients(m):
    seen = []

    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    def backward(ctx, g, h):
        seen.append([g is None, h is None])
        return 2 * g

    own = make(m, forward=forward, backward=backward)
    x = leaf(m)
    own.apply(x)[0].sum().backward()
    return x.grad, seen


def non_differentiable_outputs(m):
    def forward(ctx, x):
        values, mask = x * 2, x * 0 + 1
        ctx.mark_non_differentiable(mask)
        return values, mask

    def backward(ctx, g, h):
        return g * 2 + h

    own = make(m, forward=forward, backward=backward)
    x = leaf(m)
    values, mask = own.apply(x)
    (values * mask).sum().backward()
    return x.grad, values.requires_grad, mask.requires_grad, mask.is_leaf


def integer_outputs(m):
    own = make(m, forward=lambda ctx, x: (x * 2, (x > 0).long()), backward=lambda ctx, g, h: g * 2)
    x = leaf(m)
    values, indices = own.apply(x)
    values.sum().backward()
    return x.grad, indices.requires_grad


def changes_its_input(m):
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    own = make(m, forward=forward, backward=lambda ctx, g: g * 3)
    x = leaf(m)
    y = x * 2
    z = own.apply(y)
    (z * z).sum().backward()
    return x.grad, y is z, y._version > 0, y


def changes_a_view(m):
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    own = make(m, forward=forward, backward=lambda ctx, g: g * 3)
    x = leaf(m)
    y = x * 2
    own.apply(y[1:])
    (y * y).sum().backward()
    return x.grad, y


def changes_a_leaf(m):
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    make(m, forward=forward, backward=lambda ctx, g: g * 3).apply(leaf(m))


def changes_what_is_saved(m):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g

    own = make(m, forward=forward, backward=backward)
    y = leaf(m) * 1
    z = own.apply(y)
    y.add_(1)
    z.sum().backward()


def changes_a_saved_output(m):
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    own = make(m, forward=forward, backward=lambda ctx, g: g * ctx.saved_tensors[0])
    y = own.apply(leaf(m))
    y.add_(1)
    y.sum().backward()


def returns_its_input(m):
    own = make(m, forward=lambda ctx, x: x, backward=lambda ctx, g: g * 10)
    x = leaf(m)
    y = own.apply(x)
    y.sum().backward()
    return x.grad, y is x, y.requires_grad, x.is_leaf


def reverses_a_gradient(m):
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.view_as(x)

    own = make(m, forward=forward, backward=lambda ctx, g: (g.neg() * ctx.factor, None))
    x = leaf(m)
    own.apply(x * 2, 0.5).sum().backward()
    return x.grad


def twice_over_a_graph(m):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1

    own = make(m, forward=forward, backward=lambda ctx, g: g * ctx.saved_tensors[0])
    y = own.apply(leaf(m)).sum()
    y.backward()
    y.backward()


def twice_with_retain_graph(m):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1

    own = make(m, forward=forward, backward=lambda ctx, g: g * ctx.saved_tensors[0])
    x = leaf(m)
    y = own.apply(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad


def once_differentiable(m, second):
    once = m.autograd.function.once_differentiable

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    own = make(m, forward=forward, backward=once(lambda ctx, g: 2 * g * ctx.saved_tensors[0]))
    x = leaf(m)
    (g,) = m.autograd.grad((own.apply(x) ** 2).sum(), x, create_graph=second)
    if second:
        (g * x).sum().backward()
    return g


def in_no_grad(m):
    own = make(m, forward=lambda ctx, x: x * 2, backward=lambda ctx, g: g * 2)
    with m.no_grad():
        y = own.apply(leaf(m))
    return y, y.requires_grad, y.grad_fn is None


def of_tensors_without_gradients(m):
    own = make(m, forward=lambda ctx, x: x * 2, backward=lambda ctx, g: g * 2)
    y = own.apply(m.tensor([1.0]))
    return y, y.requires_grad


def the_node(m):
    def forward(ctx, x):
        ctx.note = "kept"
        ctx.save_for_backward(x)
        return x * 2

    own = make(m, forward=forward, backward=lambda ctx, g: g * 2)
    x = leaf(m)
    y = own.apply(x)
    node = y.grad_fn
    return type(node).__name__, node.name(), node.note, node.saved_tensors[0], node.next_functions[0][1]


def nested(m):
    square = make(
        m,
        forward=lambda ctx, x: (ctx.save_for_backward(x), x * x)[1],
        backward=lambda ctx, g: 2 * g * ctx.saved_tensors[0],
    )

    def backward(ctx, g):
        with m.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            (inner,) = m.autograd.grad(square.apply(square.apply(x)).sum(), x)
        return g * inner

    fourth = make(m, forward=lambda ctx, x: (ctx.save_for_backward(x), x**4)[1], backward=backward)
    x = leaf(m)
    fourth.apply(x).sum().backward()
    return x.grad


PROGRAMS = [
    saves_inputs_and_outputs,
    with_setup_context,
    non_tensor_arguments,
    none_for_a_needed_gradient,
    trailing_nones,
    too_few_gradients,
    a_gradient_for_a_number,
    a_gradient_that_is_summed,
    a_gradient_of_another_shape,
    a_gradient_of_another_dtype,
    several_outputs,
    without_materialized_gradients,
    non_differentiable_outputs,
    integer_outputs,
    changes_its_input,
    changes_a_view,
    changes_a_leaf,
    changes_what_is_saved,
    changes_a_saved_output,
    returns_its_input,
    reverses_a_gradient,
    twice_over_a_graph,
    twice_with_retain_graph,
    in_no_grad,
    of_tensors_without_gradients,
    the_node,
    nested,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_in_pytorch(program):
    assert_same(program)


@pytest.mark.parametrize("second", [False, True])
def test_once_differentiable(second):
    assert_same(lambda m: once_differentiable(m, second), expect_error=second)
