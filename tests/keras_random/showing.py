"""A registry of cases that show the rows of docs/from-keras.md, and a layer called here and in Keras."""

from __future__ import annotations

import numpy as np
import torch
from keras.src.backend import get_keras_mask, set_keras_mask

import prototorch as pt

#: the cases by the first cell of their row
CASES = {}
RNG = np.random.default_rng(0)


def shows(what):
    """Register a case as the one of a row."""

    def register(case):
        assert what not in CASES
        CASES[what] = case
        return case

    return register


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def here(layer, *arrays):
    """The layer's output as an array, and its mask; a mask may follow an array in a tuple."""
    tensors = []
    for one in arrays:
        x, mask = one if isinstance(one, tuple) else (one, None)
        tensors.append(pt.tensor(x))
        tensors[-1].mask = None if mask is None else pt.tensor(mask)
    out = layer(*tensors)
    out = out[0] if isinstance(out, tuple) else out
    return out.numpy(), None if out.mask is None else out.mask.numpy()


def in_keras(layer, *arrays, **options):
    """The same of Keras."""
    tensors = []
    for one in arrays:
        x, mask = one if isinstance(one, tuple) else (one, None)
        tensors.append(torch.tensor(x))
        if mask is not None:
            set_keras_mask(tensors[-1], torch.tensor(mask))
    out = layer(*tensors, **options)
    out = out[0] if isinstance(out, list | tuple) else out
    mask = get_keras_mask(out)
    return out.detach().numpy(), None if mask is None else mask.numpy()


def last(x):
    """An array of images with the channels last."""
    return np.moveaxis(x, 1, -1).copy()
