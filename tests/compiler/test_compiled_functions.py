"""`prototorch.compile`: a compiled function gives what the function gives, call after call."""

import gc
import re
from itertools import count

import numpy as np
import pytest

import prototorch as pt
from prototorch import ops
from prototorch.eager.grad_mode import no_grad
from prototorch.eager.in_place import assign
from prototorch.eager.tensor import Tensor
from prototorch.errors import ModelWarning, ShapeError, UsageError
from tests.compiler.comparing import normal, same


def test_a_function_is_one_plan_for_each_kind_of_call() -> None:
    traces = count()

    def function(x: Tensor, factor: float = 2.0) -> dict[str, Tensor]:
        next(traces)
        return {"y": ops.exp(x) * factor, "sum": [x.sum(), x]}

    compiled = pt.compile(function)
    for x in (normal(3, 2), normal(3, 2), normal(5, 2)):
        for factor in (2.0, 3.0):
            got, want = compiled(x, factor=factor), function(x, factor)
            same(got["y"], want["y"])
            same(got["sum"][0], want["sum"][0])
            assert got["sum"][1] is x
    assert compiled.num_plans == 4
    assert next(traces) == 6 + 4


def test_results_stay_as_they_are_in_later_calls() -> None:
    compiled = pt.compile(lambda x: x * 2)
    first = compiled(pt.tensor([1.0, 2.0]))
    second = compiled(pt.tensor([3.0, 4.0]))
    assert (first.tolist(), second.tolist()) == ([2.0, 4.0], [6.0, 8.0])


def two_layer_step(w1: Tensor, w2: Tensor, x: Tensor, y: Tensor) -> Tensor:
    loss = ops.square(ops.relu(x @ w1) @ w2 - y).sum()
    loss.backward()
    with no_grad():
        for w in (w1, w2):
            assign(w, w - 1e-3 * w.grad)
    w1.grad = w2.grad = None
    return loss.detach()


def test_a_training_step_is_one_plan_that_changes_the_weights_in_place() -> None:
    weights = [normal(6, 5, grad=True), normal(5, 2, grad=True)]
    twins = [pt.tensor(w.numpy(), requires_grad=True) for w in weights]
    memory = [w.array for w in weights]

    @pt.compile
    def step(x: Tensor, y: Tensor) -> Tensor:
        return two_layer_step(*weights, x, y)

    for _ in range(5):
        x, y = normal(7, 6), normal(7, 2)
        same(step(x, y), two_layer_step(*twins, x, y))
        for w, twin, array in zip(weights, twins, memory, strict=True):
            same(w, twin)
            assert w.array is array
            assert w.grad is None
    assert step.num_plans == 1


def test_gradients_that_stay_accumulate_as_without_compiling() -> None:
    w, twin = normal(4, 3, grad=True), None
    twin = pt.tensor(w.numpy(), requires_grad=True)

    def loss_of(w: Tensor, x: Tensor) -> Tensor:
        loss = ops.square(x @ w).sum()
        loss.backward()
        return loss

    compiled = pt.compile(lambda x: loss_of(w, x))
    for k in range(6):
        x = normal(2, 4)
        compiled(x)
        loss_of(twin, x)
        same(w.grad, twin.grad)
        if k == 3:
            w.grad = twin.grad = None
    assert compiled.num_plans <= 3


def test_gradients_of_arguments() -> None:
    def function(x: Tensor) -> Tensor:
        y = ops.tanh(x).sum()
        y.backward()
        return y.detach()

    compiled = pt.compile(function)
    for _ in range(3):
        x = normal(3, grad=True)
        twin = pt.tensor(x.numpy(), requires_grad=True)
        for _ in range(2):
            compiled(x)
            function(twin)
            same(x.grad, twin.grad)


def test_arguments_are_changed_in_place() -> None:
    @pt.compile
    def double(x: Tensor) -> None:
        assign(x, x * 2)

    x = pt.tensor([1.0, 2.0])
    version = x._version
    assert double(x) is None
    double(x)
    assert x.tolist() == [4.0, 8.0]
    assert x._version > version


def test_views_write_to_what_they_are_views_of() -> None:
    state = pt.tensor(np.zeros((3, 4), np.float32))

    def function(x: Tensor) -> Tensor:
        row = state[1]
        assign(row, row + x)
        state[2, 1:3] = x[:2]
        return row * 1.0

    compiled = pt.compile(function)
    for k in range(3):
        x = normal(4)
        before = state.numpy().copy()
        want = before[1] + x.numpy()
        np.testing.assert_allclose(compiled(x).numpy(), want, rtol=1e-6)
        np.testing.assert_allclose(state.numpy()[1], want, rtol=1e-6)
        np.testing.assert_allclose(state.numpy()[2, 1:3], x.numpy()[:2])
        np.testing.assert_array_equal(state.numpy()[0], before[0], err_msg=str(k))
    assert compiled.num_plans == 1


def test_old_and_new_values_of_a_state_are_told_apart() -> None:
    a, b = pt.tensor([1.0, 2.0]), pt.tensor([3.0, 4.0])

    @pt.compile
    def swap() -> tuple[Tensor, Tensor]:
        old_a, old_b = a.clone(), b.clone()
        assign(a, old_b)
        assign(b, old_a)
        return old_a, a * 1

    old, new = swap()
    assert (old.tolist(), new.tolist()) == ([1.0, 2.0], [3.0, 4.0])
    assert (a.tolist(), b.tolist()) == ([3.0, 4.0], [1.0, 2.0])
    old, new = swap()
    assert (old.tolist(), new.tolist(), a.tolist()) == ([3.0, 4.0], [1.0, 2.0], [1.0, 2.0])


def test_what_a_function_reads_outside_of_its_arguments_is_looked_at() -> None:
    class Net:
        def __init__(self) -> None:
            self.factor, self.parts, self.weight = 2.0, {"bias": pt.tensor(1.0)}, normal(2)

    net, scale = Net(), 3.0

    def function(x: Tensor) -> Tensor:
        return x * net.factor * scale * net.weight + net.parts["bias"]

    compiled = pt.compile(function)
    x = normal(2)
    same(compiled(x), function(x))
    net.factor = 5.0
    same(compiled(x), function(x))
    scale = 7.0
    same(compiled(x), function(x))
    net.weight = normal(2)
    same(compiled(x), function(x))
    net.parts["bias"] = pt.tensor(4.0)
    same(compiled(x), function(x))
    net.weight.data = normal(2)
    same(compiled(x), function(x))
    plans = compiled.num_plans
    with no_grad():
        assign(net.weight, net.weight * 2)
    same(compiled(x), function(x))
    assert compiled.num_plans == plans


def test_state_that_is_made_at_the_first_call_is_real_from_then_on() -> None:
    state: dict[str, Tensor] = {}

    @pt.compile
    def running_sum(x: Tensor) -> Tensor:
        if "sum" not in state:
            state["sum"] = x * 0
        assign(state["sum"], state["sum"] + x)
        return state["sum"] * 1

    total = np.zeros(3, np.float32)
    for _ in range(5):
        x = normal(3)
        total += x.numpy()
        np.testing.assert_allclose(running_sum(x).numpy(), total, rtol=1e-5)
        np.testing.assert_allclose(state["sum"].numpy(), total, rtol=1e-5)
    assert running_sum.num_plans == 1


def test_side_effects_that_a_plan_does_not_have_are_refused() -> None:
    history: list[Tensor] = []

    @pt.compile
    def function(x: Tensor) -> Tensor:
        history.append(x * 2)
        return x

    x = normal(2)
    with pytest.raises(UsageError, match=r"changes something outside at each call.*history"):
        [function(x) for _ in range(8)]
    for made in history[:2]:
        same(made, x * 2)


def test_layers_and_their_random_numbers() -> None:
    dense, dropout = pt.layers.Dense(4, activation="relu"), pt.layers.Dropout(0.5)

    def function(x: Tensor) -> Tensor:
        return dropout(dense(x))

    compiled = pt.compile(function)
    x = normal(8, 3)
    with pt.training():
        function(x)
        masks = []
        for call in (function, compiled):
            pt.manual_seed(3)
            masks.append([call(x).numpy() for _ in range(4)])
    np.testing.assert_allclose(masks[0], masks[1], rtol=1e-5)
    assert not np.array_equal(masks[1][0], masks[1][1])
    same(compiled(x), function(x))  # outside of training
    assert compiled.num_plans == 2


def test_weights_of_layers_are_made_at_the_first_compiled_call() -> None:
    dense = pt.layers.Dense(4)
    compiled = pt.compile(lambda x: dense(x))
    x = normal(2, 3)
    first = compiled(x)
    same(compiled(x), first)
    same(dense(x), first)


@pytest.mark.parametrize("use", [bool, float, int, lambda t: t.item(), lambda t: t.numpy(), lambda t: t.tolist()],
                         ids=["bool", "float", "int", "item", "numpy", "tolist"])  # fmt: skip
def test_control_flow_by_elements_is_an_error_with_its_line(use) -> None:
    @pt.compile
    def function(x: Tensor) -> Tensor:
        total = x.sum()
        return x * 2 if use(total) else x

    with pytest.raises(
        UsageError, match=r"test_compiled_functions\.py:\d+: the elements of a tensor are needed.*where"
    ):
        function(normal(2))
    w = normal(1)
    with pytest.raises(UsageError, match="the elements of a tensor are needed"):
        pt.compile(lambda x: x * float(use(w)))(normal(2))
    assert float(ops.exp(w).numpy()[0]) > 0  # the trace has ended


def test_errors_of_the_function_leave_everything_as_it_was() -> None:
    w = normal(3, grad=True)
    w.grad = normal(3)
    before, grad = w.numpy().copy(), w.grad

    @pt.compile
    def function(x: Tensor) -> Tensor:
        w.grad = None
        (w * x).sum().backward()
        with no_grad():
            assign(w, w - w.grad)
        return x @ w

    with pytest.raises(ShapeError):
        function(normal(1, 2))
    assert w.grad is grad
    np.testing.assert_array_equal(w.numpy(), before)


def test_what_cannot_be_compiled_is_refused_in_words() -> None:
    w = normal(3)

    @pt.compile
    def function(x):
        assign(w, w + x)
        return w

    with pytest.raises(UsageError, match="shares its memory"):
        function(w)
    with pytest.raises(UsageError, match="pass from_numpy"):
        function(np.ones(3, np.float32))
    with pytest.raises(UsageError, match="mode='max-autotune'"):
        pt.compile(function, mode="max-autotune")
    with pytest.warns(ModelWarning, match="dynamic=True changes nothing"):
        pt.compile(function, dynamic=True)
    with pytest.raises(UsageError, match="takes a function or a module, not int"):
        pt.compile(3)


def test_many_kinds_of_calls_are_reported_once() -> None:
    compiled = pt.compile(lambda x, n: x * n)
    with pytest.warns(ModelWarning, match="has been traced 8 times") as caught:
        [compiled(normal(2), n) for n in range(12)]
    assert len(caught) == 1


def test_compiled_functions_inside_compiled_functions_are_one_plan() -> None:
    inner = pt.compile(lambda x: x * 2)
    outer = pt.compile(lambda x: inner(x) + 1)
    assert outer(pt.tensor([1.0])).tolist() == [3.0]
    assert (inner.num_plans, outer.num_plans) == (0, 1)


def test_methods_are_compiled_for_each_object() -> None:
    class Scale:
        def __init__(self, factor: float):
            self.factor = factor

        @pt.compile
        def __call__(self, x: Tensor) -> Tensor:
            return x * self.factor

    two, three = Scale(2), Scale(3)
    x = pt.tensor([1.0])
    assert [s(x).tolist() for s in (two, three, two)] == [[2.0], [3.0], [2.0]]


def test_decorator_forms_and_disable() -> None:
    @pt.compile()
    def one(x: Tensor) -> Tensor:
        """Documented."""
        return x

    assert one.__doc__ == "Documented."
    assert re.match(r"<compiled function .*one, 0 plans>", repr(one))
    assert pt.compile(len, disable=True) is len
    assert pt.compile(one) is one


def test_nothing_of_a_trace_stays_in_memory() -> None:
    compiled = pt.compile(lambda x: ops.exp(x).sum())
    compiled(normal(50))
    gc.collect()
    before = sum(type(o) is Tensor for o in gc.get_objects())
    for _ in range(5):
        compiled(normal(51))
    gc.collect()
    assert sum(type(o) is Tensor for o in gc.get_objects()) <= before + 2


def test_results_of_equal_elements_have_memory_of_their_own() -> None:
    @pt.compile
    def function(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = x * 2
        return y, y.clone(), y

    a, b, c = function(pt.tensor([1.0]))
    assert a is c
    with no_grad():
        assign(a, a + 1)
    assert (a.tolist(), b.tolist()) == ([3.0], [2.0])


def test_a_module_with_an_attribute_of_the_compiled_function_s_names():
    class Tripled(pt.nn.Module):
        def __init__(self):
            super().__init__()
            self.function = pt.relu
            self._calls = 3

        def forward(self, x):
            return self.function(x) * self._calls

    assert pt.compile(Tripled())(pt.ones(2)).tolist() == [3, 3]
    pt.compile(pt.nn.Dropout(0.5))(pt.ones(3))
