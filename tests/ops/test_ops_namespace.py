"""The names of `pt.ops`: ops and functions of ops alone, by their usual names."""

import types

import pytest

import prototorch as pt
from prototorch.ops.core import Op
from prototorch.ops.operators import OPS

TEXT = """
abs acos acosh adadelta_update adagrad_update adam_update adamax_update add advanced_index affine_sample
affine_sample_grad all amsgrad_update any apply_prepacked argmax argmin as_strided_view asin asinh atan atan2 atanh
attention attention_heads attention_heads_grad attention_heads_with_stats attention_heads_with_stats_grad
attention_weights avg_pool avg_pool_grad batch_norm batch_norm_grad batch_norm_inference batch_norm_relu_grad
bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor bounded_index bounded_values
broadcast_to cast ceil centered_rmsprop_update channel_window_sum cholesky clip concat concat_view conv conv_input_grad
conv_weight_grad
copysign cos cosh count_outside crop cummax cummin cumprod cumsum diagonal digamma divide dropout eigh elu elu_grad
embedding_grad equal erf erfc erfcx erfinv exp exp2 expand_dims expm1 flip floor floor_divide fmod full fused
gather_pool_indices gelu gelu_grad getitem greater greater_equal group_norm group_norm_grad gru_sequence
gru_sequence_grad hard_sigmoid hard_sigmoid_grad hard_swish hard_swish_grad host_call hurwitz_zeta hypot i0e i1e
index_put inverse iota isfinite isinf isnan layer_norm layer_norm_grad leaky_relu leaky_relu_grad less less_equal
lgamma linear_recurrence lion_update log log10 log1p log2 log_sigmoid log_softmax logaddexp logcumsumexp logical_and
logical_not logical_or logical_xor logsumexp lrn lrn_grad lrn_recompute lrn_recompute_grad lstm_sequence
lstm_sequence_grad lstm_sequence_with_gates lstm_sequence_with_gates_grad matmul max max_pool max_pool_grad maximum
mean min minimum mish mish_grad momentum_update multiply nadam_update negative nextafter not_equal one_hot ones_like
pad polygamma power prelu prepack prod pseudo_inverse_of qr random_bits random_normal random_uniform relabel relu
relu6 relu6_grad relu_grad remainder reorder repeat reshape resize rmsprop_momentum_update rmsprop_update round rsqrt
scale_shift scale_shift_grad scatter_add_along_axis searchsorted select selu sgd_update sigmoid sigmoid_cross_entropy
sigmoid_grad sign signbit silu silu_grad simple_rnn_sequence simple_rnn_sequence_grad sin sinh slice slice_grad
slice_view sliding_windows slogdet softmax softmax_cross_entropy softmax_grad softplus softsign softsign_grad solve
sort sparse_softmax_cross_entropy sparse_softmax_cross_entropy_grad split sqrt square squeeze stack static_gather
static_scatter_add stop_gradient subtract sum svd swap_axes take take_along_axis tan tanh top_k transpose
transpose_view trunc
view_update where zeros_like
"""
NAMES = TEXT.split()


def test_the_exact_list():
    assert pt.ops.__all__ == dir(pt.ops) == NAMES


def test_nothing_else_is_there():
    public = {name: value for name, value in vars(pt.ops).items() if not name.startswith("_")}
    assert sorted(public) == NAMES
    assert not [n for n, v in public.items() if isinstance(v, types.ModuleType | type)]


def test_every_op_has_a_name():
    named = {id(value) for value in vars(pt.ops).values()}
    assert all(id(op) in named for op in OPS.values() if isinstance(op, Op))


@pytest.mark.parametrize(("name", "near"), [("covn", "conv"), ("sum_", "sum"), ("softmx", "softmax")])
def test_a_wrong_name_is_answered_with_the_nearest(name, near):
    with pytest.raises(AttributeError, match=f"prototorch.ops has no op '{name}'. Did you mean '{near}'"):
        getattr(pt.ops, name)
