"""Differences of layers: each case gives one thing in Keras and another here."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import torch
from keras.src.backend import get_keras_mask, set_keras_mask

import prototorch as pt
from tests.keras_random.showing import here, in_keras, last, normal, shows

L, K = pt.layers, keras.layers


@shows("Order of flattened images")
def flatten():
    x = normal(2, 3, 4, 5)
    np.testing.assert_array_equal(here(L.Flatten(), x)[0], x.reshape(2, -1))
    np.testing.assert_array_equal(in_keras(K.Flatten(), last(x))[0], last(x).reshape(2, -1))


@shows("Softmax inside a convolution")
def softmax_in_conv():
    x = normal(1, 2, 3, 4)
    ours = here(L.Conv2D(5, 1, activation="softmax"), x)[0]
    theirs = in_keras(K.Conv2D(5, 1, activation="softmax"), last(x))[0]
    np.testing.assert_allclose(ours.sum(-1), 1, rtol=1e-5)  # columns
    np.testing.assert_allclose(theirs.sum(-1), 1, rtol=1e-5)  # channels
    over_channels = here(L.Conv2D(5, 1, activation=L.Softmax(axis=1)), x)[0]
    np.testing.assert_allclose(over_channels.sum(1), 1, rtol=1e-5)


@shows("Axis of normalization layers")
def normalization_axis():
    for name in ("BatchNormalization", "GroupNormalization"):
        ours = [getattr(L, name)().channel_axis(ndim) for ndim in (2, 3, 4, 5)]
        assert (ours, getattr(K, name)().axis) == ([1, 2, 1, 1], -1)
    assert [L.Normalization(mean=0.0, variance=1.0).channel_axis(ndim) for ndim in (2, 3, 4, 5)] == [1, 2, 1, 1]
    assert K.Normalization(mean=0.0, variance=1.0).axis == (-1,)


@shows("Axis of Concatenate")
def concatenate_axis():
    assert ([L.Concatenate().channel_axis(ndim) for ndim in (2, 3, 4, 5)], K.Concatenate().axis) == ([1, 2, 1, 1], -1)


@shows("Window of average pooling")
def average_pool_size():
    assert L.AveragePooling2D().pool_size == (2, 2) == L.MaxPooling2D().pool_size == K.MaxPooling2D().pool_size
    with pytest.raises(TypeError, match="pool_size"):
        K.AveragePooling2D()


@shows("Random numbers")
def random_numbers():
    x = np.ones((64, 64), np.float32)
    with pt.eager.layer_call.training():
        ours = here(L.Dropout(0.5, seed=1), x)[0]
    theirs = in_keras(K.Dropout(0.5, seed=1), x, training=True)[0]
    assert not np.array_equal(ours, theirs)
    for made in (ours, theirs):
        assert set(np.unique(made)) == {0.0, 2.0}
        assert abs(made.mean() - 1) < 0.1


@shows("RandomCrop outside training")
def random_crop():
    x = normal(1, 2, 6, 8)
    assert here(L.RandomCrop(3, 3), x)[0].shape == (1, 2, 3, 3)
    assert in_keras(K.RandomCrop(3, 3), last(x), training=False)[0].shape == (1, 6, 8, 2)


@shows("Average pooling with uneven padding")
def average_pooling():
    x = np.array([[[1.0], [2.0], [6.0], [8.0]]], np.float32)  # windows of 3, strides of 2: a step of padding at the end
    np.testing.assert_allclose(here(L.AveragePooling1D(3, 2, "same"), x)[0], [[[3.0], [7.0]]])
    theirs = in_keras(K.AveragePooling1D(3, 2, "same"), x)[0]
    np.testing.assert_allclose(theirs, [[[3.0], [22 / 3]]], rtol=1e-6)


@shows("Bicubic interpolation")
def bicubic():
    x = normal(1, 1, 4, 4)
    ours = here(L.UpSampling2D(2, interpolation="bicubic"), x)[0]
    theirs = in_keras(K.UpSampling2D(2, interpolation="bicubic", data_format="channels_first"), x)[0]
    assert np.abs(ours - theirs).max() > 1e-3
    assert np.abs(ours - theirs).max() < 0.5


@shows("Gradient of a maximum of equal inputs")
def equal_inputs():
    a, b = (pt.tensor(np.ones((1, 1), np.float32), requires_grad=True) for _ in range(2))
    L.Maximum()(a, b).sum().backward()
    assert (a.grad.item(), b.grad.item()) == (1.0, 0.0)
    c, d = (torch.ones(1, 1, requires_grad=True) for _ in range(2))
    K.Maximum()([c, d]).sum().backward()
    assert (c.grad.item(), d.grad.item()) == (0.5, 0.5)


@shows("A mask beside first states")
def mask_beside_states():
    x, state = normal(2, 3, 4), normal(2, 5)
    mask = np.array([[1, 0, 0], [1, 1, 0]], bool)
    ours, theirs = L.GRU(5), K.GRU(5)
    assert np.abs(here(ours, (x, mask), state)[0] - here(ours, x, state)[0]).max() > 1e-3
    attached = in_keras(theirs, (x, mask), initial_state=torch.tensor(state))[0]
    np.testing.assert_array_equal(attached, in_keras(theirs, x, initial_state=torch.tensor(state))[0])
    by_hand = in_keras(theirs, x, initial_state=torch.tensor(state), mask=torch.tensor(mask))[0]
    assert np.abs(attached - by_hand).max() > 1e-3


@shows("The mask of a sequence that goes backwards")
def backwards_mask():
    mask = np.array([[1, 1, 0]], bool)
    options = {"return_sequences": True, "go_backwards": True}
    assert here(L.GRU(2, **options), (normal(1, 3, 2), mask))[1].tolist() == [[False, True, True]]
    assert in_keras(K.GRU(2, **options), (normal(1, 3, 2), mask))[1].tolist() == mask.tolist()


@shows("Queries that see nothing")
def blind_queries():
    x, mask = normal(1, 2, 3), np.array([[True, False]])
    ours = here(L.MultiHeadAttention(1, 2), (x, mask))[0]
    np.testing.assert_array_equal(ours[0, 1], 0)  # the bias, which is 0 at first
    layer = K.MultiHeadAttention(1, 2)
    given = torch.tensor(x)
    set_keras_mask(given, torch.tensor(mask))
    assert layer(given, given).abs()[0, 1].max() > 1e-3


@shows("Masks of merged values of more axes")
def merged_masks():
    x, y = normal(2, 2, 2, 3), normal(2, 2, 2, 3)
    mask = np.array([[True, False], [True, True]])
    ours = here(L.Multiply(), (x, mask), y)[0]
    np.testing.assert_allclose(ours[0, 1], y[0, 1], rtol=1e-6)  # what is masked does not count
    np.testing.assert_allclose(ours[1], (x * y)[1], rtol=1e-6)
    a, b = torch.tensor(x), torch.tensor(y)
    set_keras_mask(a, torch.tensor(mask))
    theirs = K.Multiply()([a, b]).numpy()
    assert np.abs(theirs[1] - (x * y)[1]).max() > 1e-3  # though no step of this sample is masked


@shows("Masks behind Permute and Dot")
def permute_and_dot():
    x, mask = normal(1, 2, 3), np.array([[True, False]])
    assert here(L.Permute([2, 1]), (x, mask))[1].tolist() == [[[True, False]]]
    assert in_keras(K.Permute([2, 1]), (x, mask))[1] is None
    a, b = pt.Input((2, 3)), pt.Input((2, 3))
    with pytest.warns(pt.errors.ModelWarning, match="mask"):
        pt.Model([a, b], L.Dot([2, 2])(L.Masking()(a), b)).predict([x, x])


@shows("The mask of attention scores")
def scores_mask():
    mask = np.array([[1, 1, 0]], bool)
    x = pt.tensor(normal(1, 3, 4))
    x.mask = pt.tensor(mask)
    assert L.MultiHeadAttention(1, 2, return_attention_scores=True)(x)[1].mask is None
    given = torch.tensor(normal(1, 3, 4))
    set_keras_mask(given, torch.tensor(mask))
    scores = K.MultiHeadAttention(1, 2)(given, given, return_attention_scores=True)[1]
    assert get_keras_mask(scores).ndim == 4
