"""Random tensors, and how two are compared."""

import numpy as np

import prototorch as pt
from prototorch.eager.tensor import Tensor

RNG = np.random.default_rng(0)


def normal(*shape: int, grad: bool = False) -> Tensor:
    return pt.tensor(RNG.standard_normal(shape).astype(np.float32), requires_grad=grad)


def same(a: Tensor, b: Tensor, tolerance: float = 1e-5) -> None:
    assert a.dtype == b.dtype
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=tolerance, atol=tolerance)
