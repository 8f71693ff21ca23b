"""NumPy's names of arguments, ``axis`` and ``keepdims``, which PyTorch takes for ``dim`` and ``keepdim``."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt

X = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax", "std", "argmax", "logsumexp", "softmax", "cumsum"])
def test_axis_is_dim(name):
    x = pt.tensor(X)
    by_dim = getattr(pt, name)(x, dim=1)
    for found in (getattr(pt, name)(x, axis=1), getattr(x, name)(axis=1)):
        np.testing.assert_array_equal(found.numpy(), by_dim.numpy())


def test_numpy_functions_take_tensors():
    assert pt.tensor(X).sum(axis=0, keepdims=True).shape == (1, 4)
    np.testing.assert_allclose(float(np.mean(pt.tensor(X))), X.mean(), rtol=1e-6)


def test_both_names_are_refused():
    with pytest.raises(TypeError, match="axis"):
        pt.tensor(X).sum(axis=0, dim=0)
