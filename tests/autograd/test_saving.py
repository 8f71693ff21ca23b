"""What the tape keeps and for how long: memory, hooks that pack it, anomaly mode, the form of functions before 0.2."""

from __future__ import annotations

import gc
import sys
import tracemalloc
import weakref

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch import nn
from prototorch.errors import GradientError, UsageError

N = 1 << 17  # elements, fewer than kernels share out to threads


def peak_of(work):
    """Bytes that Python allocates at most while it runs: NumPy reports its arrays."""
    gc.collect()
    tracemalloc.start()
    try:
        base = tracemalloc.get_traced_memory()[0]
        work()
        return tracemalloc.get_traced_memory()[1] - base
    finally:
        tracemalloc.stop()


def test_a_loop_of_ten_thousand_steps_is_flat():
    w = pt.ones(64, requires_grad=True)

    def steps(count):
        for _ in range(count):
            (w * w).sum().backward()
            with pt.no_grad():
                w.sub_(w.grad * 0.001)
                w.grad.zero_()

    gc.collect()
    gc.disable()
    try:
        steps(500)
        before = sys.getallocatedblocks()
        steps(10_000)
        assert sys.getallocatedblocks() - before < 4000  # one object a step would be 10,000
    finally:
        gc.enable()


def test_a_graph_is_freed_without_the_garbage_collector():
    gc.disable()
    try:
        x = pt.ones(8, requires_grad=True)
        h = x
        alive = []
        for _ in range(5):
            h = (h * 2).exp().tanh()
            alive.append(weakref.ref(h.grad_fn))
        h[2:].sum().backward()
        assert any(r() is not None for r in alive)
        del h
        assert all(r() is None for r in alive)
    finally:
        gc.enable()


def test_a_long_chain_is_freed_without_recursion():
    x = pt.ones(1, requires_grad=True)
    y = x
    for _ in range(20_000):
        y = y + 1
    y.backward()
    del y
    assert x.grad.item() == 1


@pytest.mark.parametrize(
    ("name", "step", "kept"),
    [
        ("an addition keeps nothing", lambda h: h + 1, 0),
        ("a product with a number keeps nothing", lambda h: h * 2, 0),
        ("an exponential keeps its output", lambda h: h.exp(), 1),
        ("a rectifier keeps one array", lambda h: h.relu(), 1),
        ("a hyperbolic tangent keeps its output", lambda h: h.tanh(), 1),
        ("a reshape keeps nothing", lambda h: h.reshape(2, -1).reshape(-1), 0),
    ],
    ids=lambda v: v if isinstance(v, str) else None,
)
def test_only_what_derivatives_read_is_kept(name, step, kept):
    depth = 10
    x = pt.zeros(N, requires_grad=True)
    held = []

    def forward():
        h = x
        for _ in range(depth):
            h = step(h)
        held.append(h)

    peak_of(forward)
    held.clear()
    gc.collect()
    tracemalloc.start()
    try:
        base = tracemalloc.get_traced_memory()[0]
        forward()
        after = tracemalloc.get_traced_memory()[0] - base
    finally:
        tracemalloc.stop()
    arrays = after / (4 * N)
    assert arrays <= (depth * kept if kept else 1) + 0.2


def test_activations_are_freed_during_the_backward_pass():
    """The gradients take the memory that activations leave: the peak is not that of both."""
    x = pt.zeros(N, requires_grad=True)

    def work():
        h = x
        for _ in range(16):
            h = h.tanh()
        h.sum().backward()

    work()
    x.grad = None
    assert peak_of(work) / (4 * N) < 16 + 5


def test_pack_hooks_see_what_is_saved():
    results = []
    for m in (torch, pt):
        seen = []
        x = m.tensor([1.0, 2.0, 3.0], dtype=m.float64, requires_grad=True)

        def pack(t, seen=seen):
            seen.append(t.tolist())
            return len(seen) - 1

        def unpack(k, seen=seen, m=m):
            return m.tensor(seen[k], dtype=m.float64)

        with m.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = (x.exp() * x).sum()
        y.backward()
        results.append((sorted(seen), x.grad.tolist()))
    assert results[0] == results[1]


def test_pack_hooks_of_functions_and_mistakes():
    class Square(pt.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    x = pt.tensor([3.0], requires_grad=True)
    with pt.autograd.graph.saved_tensors_hooks(lambda t: t.numpy() * 1, pt.tensor):
        y = Square.apply(x)
    y.backward()
    assert x.grad.item() == 6
    with pt.autograd.graph.save_on_cpu():
        z = (x * x).sum()
    z.backward()
    assert x.grad.item() == 12
    with pt.autograd.graph.saved_tensors_hooks(lambda t: 1, lambda k: k):
        w = (x * x).sum()
    with pytest.raises(UsageError, match="unpack hook must return a tensor, not int"):
        w.backward()
    with pt.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t.reshape(1, 1)):
        w = (x * x).sum()
    with pytest.raises(UsageError, match=r"must return a tensor float32\[1\], as was packed, not float32\[1, 1\]"):
        w.backward()
    with (
        pt.autograd.graph.disable_saved_tensors_hooks("not here"),
        pytest.raises(GradientError, match="not here"),
        pt.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    ):
        pass


def a_function_that_goes_wrong(x):
    return (x - x).sqrt() * 0  # the line that the message shows


@pytest.mark.filterwarnings("ignore")
def test_anomaly_mode_names_the_op_and_the_line():
    x = pt.tensor([1.0], requires_grad=True)
    with pt.autograd.detect_anomaly():
        y = a_function_that_goes_wrong(x).sum()
        with pytest.raises(GradientError, match=r"(?s)SqrtBackward0 returned nan.*the line that the message shows"):
            y.backward()
    a_function_that_goes_wrong(x).sum().backward()
    assert np.isnan(x.grad.item())
    with pt.autograd.detect_anomaly(check_nan=False):
        a_function_that_goes_wrong(x).sum().backward()
    pt.autograd.set_detect_anomaly(True)
    try:
        y = x.exp()
        y.add_(1)
        with pytest.raises(GradientError) as caught:
            y.sum().backward()
        assert "y = x.exp()" in "".join(caught.value.__notes__)
    finally:
        pt.autograd.set_detect_anomaly(False)
    assert pt.autograd.anomaly_mode.observers.get() is None


class ReLU(pt.Function):
    """As it was written before PyTorch 0.2: an instance is called."""

    def forward(self, x):
        self.save_for_backward(x)
        return x.clamp(min=0)

    def backward(self, grad_y):
        (x,) = self.saved_tensors
        grad_x = grad_y.clone()
        grad_x[x < 0] = 0
        return grad_x


def test_functions_of_the_first_versions():
    x = pt.tensor([-1.0, 2.0, 3.0], requires_grad=True)
    relu = ReLU()
    y = relu(x)
    z = relu(x * 2)
    (y * 2 + z).sum().backward()
    assert y.tolist() == [0, 2, 3]
    assert x.grad.tolist() == [0, 4, 4]
    assert ReLU()(x).grad_fn.name() == "ReLUBackward"


def test_gradients_of_several_tensors_at_once():
    seen = []
    a, b = pt.tensor([1.0], requires_grad=True), pt.tensor([2.0], requires_grad=True)
    handle = pt.autograd.graph.register_multi_grad_hook([a, b], lambda gs: seen.append([g.item() for g in gs]))
    for _ in range(2):
        (a * b).backward()
    handle.remove()
    (a * b).backward()
    assert seen == [[2, 1], [2, 1]]


def test_edges_and_versions():
    x = pt.tensor([1.0], requires_grad=True)
    y = x * 2
    edge = pt.autograd.graph.get_gradient_edge(y)
    assert edge.node is y.grad_fn
    assert pt.autograd.graph.get_gradient_edge(x).node.variable is x
    before = y._version
    pt.autograd.graph.increment_version(y)
    assert y._version == before + 1


def test_threads_do_not_disturb_each_other():
    """Composite derivatives collect the ops of their own thread alone."""
    from concurrent.futures import ThreadPoolExecutor

    def work(k):
        x = pt.full((50,), 0.01 * k, requires_grad=True)
        for _ in range(30):
            x.grad = None
            nn.functional.mish(x).sum().backward()
        return x.grad.numpy()[0]

    expected = [work(k) for k in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == expected
