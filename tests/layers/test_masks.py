"""Masks: which layers pass them on, which use them, and what is said where one ends."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import prototorch as pt
from prototorch import tensor
from prototorch.eager.layer_call import training as training_phase
from prototorch.engine.harness.case import cases
from prototorch.errors import ModelWarning
from prototorch.layers.base import Layer

L = pt.layers
KEEP = [c for c in cases() if c.layer.mask_policy == "keep" and c.example.inputs[0]]
END = [c for c in cases() if c.layer.mask_policy == "end" and c.number == 0 and c.example.inputs[0]]


def call(case, mask, training=False):
    """The case's layer on its inputs, the first with the mask: its first output."""
    inputs = [tensor(x) for x in case.inputs("float32")]
    inputs[0].mask = None if mask is None else tensor(mask)
    with training_phase(training):
        made = case.instance(*inputs)
    return made[0] if isinstance(made, tuple) else made


def random_mask(case):
    return np.random.default_rng(1).random(case.inputs("float32")[0].shape[:2]) < 0.6


@pytest.mark.parametrize("case", KEEP, ids=lambda c: c.id)
def test_a_layer_that_keeps_masks_gives_its_output_the_mask_of_its_input(case):
    mask = random_mask(case)
    for training in (False, True):
        y = call(case, mask, training)
        assert y.mask.numpy().tolist() == mask.tolist()
        assert y.shape[:2] == mask.shape


@pytest.mark.parametrize("case", END, ids=lambda c: c.id)
def test_a_layer_that_takes_no_masks_says_so(case):
    x = random_mask(case)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        y = call(case, x)
    if y.mask is None:
        (warning,) = found
        assert warning.category is ModelWarning
        assert "mask" in str(warning.message)
        assert case.layer.__name__ in str(warning.message)
    else:  # an embedding makes a mask of its own, and augmentation does nothing outside training
        assert not found


def test_every_layer_states_its_mask_policy():
    assert {c.mask_policy for c in Layer.members().values()} == {"keep", "use", "end"}


TEXT = """
input { name: "x"  shape: [4]  dtype: int32 }
Embedding { input_dim: 9  output_dim: 3  mask_zero: true }
Conv1D { filters: 2  kernel_size: 3 }
"""


def test_the_warning_names_file_line_layer_and_shape(tmp_path):
    (tmp_path / "net.proto").write_text(TEXT)
    with pytest.warns(ModelWarning) as found:
        pt.load_model(tmp_path / "net.proto").build()
    text = str(found[0].message)
    assert "net.proto:4:1: layer 'conv1d_1' (Conv1D): its input has a mask, which Conv1D does not pass on" in text
    assert "[4, 3]" in text


def test_permute_moves_the_mask_with_its_axis():
    x = tensor(np.zeros((2, 4, 3), np.float32))
    x.mask = tensor(np.array([[1, 1, 1, 0], [1, 0, 0, 0]], bool))
    y = L.Permute([2, 1])(x)
    assert y.mask.shape == (2, 1, 4)
    assert L.Permute([2, 1])(y).mask.numpy().tolist() == x.mask.numpy().tolist()
    assert L.Permute([1, 2])(x).mask.numpy().tolist() == x.mask.numpy().tolist()


def test_the_mean_of_a_sequence_is_over_the_steps_that_count():
    tokens = np.array([[1, 2, 0, 0], [3, 0, 0, 0], [0, 0, 0, 0]], np.int32)
    embed = L.Embedding(4, 3, mask_zero=True)
    y = L.GlobalAveragePooling1D()(embed(tensor(tokens))).numpy()
    table = pt.eager.layer_call.weights_of(embed)["embeddings"].numpy()
    np.testing.assert_allclose(y, [(table[1] + table[2]) / 2, table[3], [0, 0, 0]], rtol=1e-6)


def test_a_mean_over_another_axis_than_the_masked_one_says_so():
    x = tensor(np.zeros((2, 4, 3), np.float32))
    x.mask = tensor(np.ones((2, 4), bool))
    with pytest.warns(ModelWarning, match=r"mask of its 4 channels.*over its 3 steps.*data_format: channels_last"):
        L.GlobalAveragePooling1D(data_format="channels_first")(x)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("steps", "channels"), [(4, 3), (4, 1), (1, 3), (1, 1)])
def test_whole_channels_are_dropped_from_a_sequence_that_keeps_its_mask(steps, channels, training):
    x = tensor(np.ones((2, steps, channels), np.float32))
    x.mask = tensor(np.arange(2 * steps).reshape(2, steps) % 3 > 0)
    with training_phase(training):
        y = L.SpatialDropout1D(0.5)(x)
    assert y.mask.numpy().tolist() == x.mask.numpy().tolist()


def test_an_unmasked_input_of_a_merging_layer_is_named():
    x, y = (tensor(np.zeros((2, 4, 3), np.float32)) for _ in range(2))
    x.mask = tensor(np.ones((2, 4), bool))
    with pytest.warns(ModelWarning, match="no mask.*0 have masks, 1 have none"):
        assert L.Add()(x, y).mask is None


def test_a_recurrent_layer_over_another_axis_than_the_masked_one_says_so():
    x = tensor(np.zeros((2, 4, 3), np.float32))
    x.mask = tensor(np.ones((2, 4), bool))
    with pytest.warns(ModelWarning, match=r"mask \[1, 4\], which is not one of its 3 steps"):
        L.LSTM(2)(L.Permute([2, 1])(x))


def test_masks_within_each_step_reach_the_layer_inside_time_distributed():
    tokens = tensor(np.array([[[1, 2, 0], [3, 0, 0]], [[0, 0, 0], [1, 1, 1]]], np.int32))
    words = L.Embedding(4, 3, mask_zero=True)(tokens)
    lstm = L.LSTM(2)
    y = L.TimeDistributed(lstm)(words)
    assert y.mask.numpy().tolist() == [[True, True], [False, True]]
    other = L.Embedding(4, 3, mask_zero=True)(tensor(np.array([[1, 2], [3, 0]], np.int32)))
    assert other.mask is not None
    np.testing.assert_array_equal(y.numpy()[1, 0], 0)  # a step without words leaves the first state


def test_batch_statistics_leave_out_what_is_masked():
    rng = np.random.default_rng(2)
    x, mask = rng.standard_normal((5, 4, 3)).astype(np.float32), rng.random((5, 4)) < 0.5
    x[~mask] = np.nan
    layer, given = L.BatchNormalization(axis=-1, momentum=0.0), tensor(x)
    given.mask = tensor(mask)
    with training_phase(True):
        y = layer(given).numpy()
    kept = x[mask]
    np.testing.assert_allclose(y[mask], (kept - kept.mean(0)) / np.sqrt(kept.var(0) + 1e-3), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(pt.eager.layer_call.weights_of(layer)["moving_mean"].numpy(), kept.mean(0), rtol=1e-5)
