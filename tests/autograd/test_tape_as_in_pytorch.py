"""Gradients, hooks, nodes, modes and mistakes: the same programs with PyTorch and here."""

from __future__ import annotations

import gc

import pytest

import prototorch as pt
from tests.autograd.programs import assert_same, run


def leaf(m, *values):
    return m.tensor(list(values) or [1.0, -2.0, 3.0], dtype=m.float64, requires_grad=True)


def hooks_of_tensors(m):
    seen = []
    x = leaf(m)
    y = x * 2
    x.register_hook(lambda g: seen.append(("x", g.tolist())))
    y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: seen.append(("y", g.tolist())))
    (y * y).sum().backward()
    return x.grad, seen


def a_removed_hook(m):
    x = leaf(m)
    handle = x.register_hook(lambda g: g * 10)
    handle.remove()
    with x.register_hook(lambda g: g * 3):
        (x * 2).sum().backward()
    (x * 2).sum().backward()
    return x.grad


def hooks_with_autograd_grad(m):
    x = leaf(m)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    return m.autograd.grad((y * y).sum(), [x, y])


def retained_gradients(m):
    x = leaf(m)
    y = x * 2
    z = y * y
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    z.sum().backward()
    return x.grad, y.grad, z.grad, y.retains_grad, z.retains_grad


def a_retained_gradient_moves_with_a_change_in_place(m):
    x = leaf(m)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    (y * y).sum().backward()
    return x.grad, y.grad


def hooks_after_accumulation(m):
    seen = []
    x = leaf(m)
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    return seen


def hooks_of_nodes(m):
    seen = []
    x = leaf(m)
    y = x * 2
    node = (y * y).sum().grad_fn
    product = node.next_functions[0][0]
    product.register_prehook(lambda grads: (grads[0] * 2,))
    product.register_hook(lambda ins, outs: seen.append((len(ins), outs[0].tolist())))
    z = (y * y).sum()
    z.grad_fn.next_functions[0][0].register_hook(lambda ins, outs: tuple(g * 3 for g in ins))
    z.backward()
    return x.grad, seen


def the_node_of_a_leaf(m):
    seen = []
    x = leaf(m)
    node = x.expand_as(x).grad_fn.next_functions[0][0]
    node.register_hook(lambda ins, outs: seen.append(outs[0].tolist()))
    (x * 2).sum().backward()
    return seen, node.variable is x, type(node).__name__


def names_of_nodes(m):
    x = leaf(m)
    made = [x + 1, x - 1, x * 2, x / 2, x.exp(), x.sum(), x.tanh(), x.sigmoid(), -x, x.abs()]
    return [t.grad_fn.name() for t in made], [type(t.grad_fn).__name__ for t in made]


def a_walk_over_the_graph(m):
    x, y = leaf(m), leaf(m)
    found = []

    def walk(node):
        if node is None:
            found.append(None)
            return
        found.append(node.name().split("::")[-1])
        for parent, _ in node.next_functions:
            walk(parent)

    walk((x * y).exp().grad_fn)
    return found


def several_outputs_at_once(m):
    x = leaf(m)
    m.autograd.backward([(x * 2).sum(), x * x], [None, m.ones_like(x)])
    return x.grad


def gradients_into_chosen_leaves(m):
    x, y = leaf(m), leaf(m)
    (x * y).sum().backward(inputs=[x])
    return x.grad, y.grad is None


def gradients_into_a_tensor_that_is_no_leaf(m):
    x = leaf(m)
    y = x * 2
    (y * y).sum().backward(inputs=[y])
    return y.grad, x.grad is None


def create_graph(m):
    x = leaf(m)
    (g,) = m.autograd.grad((x**4).sum(), x, create_graph=True)
    (h,) = m.autograd.grad(g.sum(), x, create_graph=True)
    (k,) = m.autograd.grad((h * h).sum(), x)
    return g, h, k, k.requires_grad


def backward_with_create_graph(m):
    x = leaf(m)
    (x**3).sum().backward(create_graph=True)
    first = x.grad
    x.grad = None
    first.sum().backward()
    return first, x.grad


def a_gradient_of_a_gradient_of_outputs(m):
    x, v = leaf(m), leaf(m, 1.0, 1.0, 1.0)
    (g,) = m.autograd.grad(x * x, x, v, create_graph=True)
    return m.autograd.grad(g.sum(), [x, v])


def accumulation_goes_on_in_place(m):
    x = leaf(m)
    (x * 2).sum().backward()
    alias = x.grad
    (x * 3).sum().backward()
    return alias is x.grad, alias


def gradients_are_no_aliases(m):
    x, y = leaf(m), leaf(m)
    (x + y).sum().backward()
    x.grad.mul_(5)
    return x.grad, y.grad


def what_hooks_keep_is_no_alias(m):
    kept = []
    x = leaf(m)
    x.register_hook(lambda g: kept.append(g))
    y = x + 0
    y.retain_grad()
    (y + 0).sum().backward()
    x.grad.mul_(5)
    return x.grad, kept, y.grad


def what_functions_give_is_no_alias(m):
    kept = []

    def backward(ctx, g):
        kept.append(g)
        return g

    own = type(
        "Own",
        (m.autograd.Function,),
        {"forward": staticmethod(lambda ctx, x: x * 1), "backward": staticmethod(backward)},
    )
    x = leaf(m)
    (own.apply(x) * 2).sum().backward()
    x.grad.mul_(5)
    return x.grad, kept


def a_seed_is_no_alias(m):
    x = leaf(m)
    seed = m.ones_like(x).detach()
    (x + 0).backward(seed)
    x.grad.mul_(5)
    return seed


def zeroing_by_data(m):
    x = leaf(m)
    for _ in range(3):
        (x * x).sum().backward()
        x.data -= 0.1 * x.grad.data
        x.grad.data.zero_()
    return x, x.grad


def the_trap_of_the_update(m):
    w = leaf(m)
    for _ in range(3):
        (w * w).sum().backward()
        with m.no_grad():
            w -= 0.1 * w.grad
            w.grad.zero_()
    return w, w.is_leaf, w.requires_grad, w.grad


def old_variables(m):
    from importlib import import_module

    variable = import_module(f"{m.__name__}.autograd").Variable
    x = variable(m.tensor([1.0, 2.0]), requires_grad=True)
    (x * x).sum().backward()
    return x.grad.data, isinstance(x, variable), isinstance(m.tensor([1.0]), variable), x.requires_grad


def modes(m):
    x = leaf(m)
    found = []
    with m.no_grad():
        found.append((x * 2).requires_grad)
        with m.enable_grad():
            found.append((x * 2).requires_grad)
        found.append(m.is_grad_enabled())
    with m.set_grad_enabled(False):
        found.append((x * 2).requires_grad)
    previous = m.is_grad_enabled()
    m.set_grad_enabled(False)
    found.append((x * 2).requires_grad)
    m.set_grad_enabled(previous)
    with m.inference_mode():
        found.append((x * 2).requires_grad)
    with m.inference_mode(False):
        found.append((x * 2).requires_grad)
    return found


def modes_as_decorators(m):
    x = leaf(m)

    @m.no_grad()
    def without():
        return (x * 2).requires_grad

    @m.no_grad
    def plain():
        return (x * 2).requires_grad

    @m.enable_grad()
    def within():
        return (x * 2).requires_grad

    @m.inference_mode()
    def inference():
        return (x * 2).requires_grad

    @m.set_grad_enabled(False)
    def turned_off():
        return (x * 2).requires_grad

    with m.no_grad():
        inner = within()
    return without(), plain(), within(), inner, inference(), turned_off(), m.is_grad_enabled()


def modes_on_generators(m):
    x = leaf(m)

    @m.no_grad()
    def numbers():
        for _ in range(2):
            yield (x * 2).requires_grad
        return 7

    found = []
    for inside in numbers():
        found += [inside, (x * 2).requires_grad, m.is_grad_enabled()]
    return found


def detached(m):
    x = leaf(m)
    y = x.detach()
    z = (x * 2).detach_()
    return y.requires_grad, z.requires_grad, z.is_leaf, (x * y).requires_grad


def requires_grad_of_results(m):
    x = leaf(m)
    return [t.requires_grad for t in (x > 0, x.long(), x.argmax(), x.sign(), x.max(), x.clone(), x.data, x[0])]


PROGRAMS = [
    hooks_of_tensors,
    a_removed_hook,
    hooks_with_autograd_grad,
    retained_gradients,
    a_retained_gradient_moves_with_a_change_in_place,
    hooks_after_accumulation,
    hooks_of_nodes,
    the_node_of_a_leaf,
    names_of_nodes,
    a_walk_over_the_graph,
    several_outputs_at_once,
    gradients_into_chosen_leaves,
    gradients_into_a_tensor_that_is_no_leaf,
    create_graph,
    backward_with_create_graph,
    a_gradient_of_a_gradient_of_outputs,
    accumulation_goes_on_in_place,
    gradients_are_no_aliases,
    a_seed_is_no_alias,
    what_hooks_keep_is_no_alias,
    what_functions_give_is_no_alias,
    zeroing_by_data,
    the_trap_of_the_update,
    old_variables,
    modes,
    modes_as_decorators,
    modes_on_generators,
    detached,
    requires_grad_of_results,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_in_pytorch(program):
    assert_same(program)


def test_programs_leave_no_tensor_in_a_cycle():
    gc.collect()
    gc.disable()
    try:
        count = len([o for o in gc.get_objects() if type(o) is pt.Tensor])
        for program in (hooks_of_tensors, create_graph, retained_gradients, the_trap_of_the_update):
            run(program, pt)
        assert len([o for o in gc.get_objects() if type(o) is pt.Tensor]) <= count
    finally:
        gc.enable()
