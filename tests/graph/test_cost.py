"""What ops cost: products counted by hand, groups as the sum of their parts."""

from __future__ import annotations

import pytest

from prototorch.graph.cost import Cost, estimate_cost
from prototorch.ops.operators import OPS
from prototorch.spec import Spec

CONV = {"strides": (2, 1), "pads": ((1, 1), (0, 0)), "dilation": (1, 1), "groups": 2}
X, W = Spec((3, 4, 9, 8)), Spec((6, 2, 3, 2))


def _of(name: str, *ins: Spec, **attrs) -> Cost:
    outs = OPS[name].infer_spec(*ins, **attrs)
    return estimate_cost(OPS[name], ins, outs if isinstance(outs, tuple) else (outs,), attrs)


def test_a_convolution_and_its_two_gradients_cost_the_same():
    y = Spec((3, 6, 5, 7))
    pairs = 2 * y.size * 2 * 3 * 2  # each output meets a filter of 2 channels and 3 x 2 places
    assert _of("conv", X, W, **CONV) == Cost(pairs, 4 * (X.size + W.size + y.size))
    assert _of("conv_input_grad", y, W, size=(9, 8), **CONV).flops == pairs
    assert _of("conv_weight_grad", X, y, kernel=(3, 2), **CONV).flops == pairs


@pytest.mark.parametrize(("a", "b"), [(False, False), (True, False), (False, True), (True, True)])
def test_a_matrix_product_in_any_form(a, b):
    m, k, n = 5, 7, 3
    left, right = Spec((2, k, m) if a else (2, m, k)), Spec((n, k) if b else (k, n))
    assert _of("matmul", left, right, transpose_a=a, transpose_b=b).flops == 2 * 2 * m * k * n


def test_attention_is_its_product_and_its_softmax():
    q, k = Spec((2, 4, 10, 8)), Spec((2, 4, 12, 8))
    rows = 2 * 4 * 10 * 12
    assert _of("attention_weights", q, k).flops == 2 * rows * 8 + rows + 5 * rows  # product, scale, softmax


def test_a_sequence_multiplies_the_state_in_each_step():
    n, t, units = 3, 6, 5
    x, u, h = Spec((n, t, 4 * units)), Spec((units, 4 * units)), Spec((n, units))
    product = 2 * n * t * units * 4 * units
    assert product < _of("lstm_sequence", x, u, h, h).flops < 1.5 * product


def test_a_fused_group_costs_its_parts_but_moves_only_its_ends():
    program = (
        ("conv", (("in", 0), ("in", 1)), tuple(CONV.items())),
        ("add", (("node", 0, 0), ("in", 2)), ()),
        ("relu", (("node", 1, 0),), ()),
    )
    bias, y = Spec((6, 1, 1)), Spec((3, 6, 5, 7))
    found = _of("fused", X, W, bias, program=program, outputs=(("node", 2, 0),))
    assert found.flops == _of("conv", X, W, **CONV).flops + 2 * y.size
    assert found.nbytes == 4 * (X.size + W.size + bias.size + y.size)


def test_a_view_costs_nothing_and_a_look_up_only_its_rows():
    assert _of("reshape", X, shape=(3, -1)) == Cost()
    table, tokens = Spec((1000, 16)), Spec((2, 5), "int32")
    assert _of("take", table, tokens).nbytes == 2 * 10 * 16 * 4 + 10 * 4


def test_costs_add_up_to_a_least_time():
    assert Cost(1, 2) + Cost(3, 4) == Cost(4, 6)
    assert Cost(100, 10).seconds(flops=10.0, bandwidth=10.0) == 10.0
