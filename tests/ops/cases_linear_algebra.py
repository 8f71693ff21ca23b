"""Cases of linear algebra: PyTorch in float64."""

import numpy as np
import torch

from tests.ops.cases_special import by_torch
from tests.ops.op_case import case, normal

BATCHES = [(), (2,), (2, 1), (0,)]


def regular(*batch, n=3):
    """Matrices that are far from singular."""
    return normal(*batch, n, n) + 4 * np.eye(n)


def symmetric(x):
    return x @ np.swapaxes(x, -1, -2) + 2 * np.eye(x.shape[-1])


for batch in BATCHES:
    case("inverse", regular(*batch), oracle=by_torch(torch.linalg.inv), tolerance32=1e-5)
    case("solve", regular(*batch), normal(*batch, 3, 2), oracle=by_torch(torch.linalg.solve), tolerance32=1e-5)
    case("slogdet", regular(*batch), oracle=lambda x: tuple(v.numpy() for v in torch.linalg.slogdet(torch.tensor(x))))
case("solve", regular(2, 1), normal(3, 3, 2), oracle=by_torch(torch.linalg.solve), tolerance32=1e-5)
case("inverse", regular(n=1), oracle=by_torch(torch.linalg.inv))


def eigenvectors(x):
    """PyTorch's, with the signs of NumPy's."""
    values, vectors = (v.numpy() for v in torch.linalg.eigh(torch.tensor(x, dtype=torch.float64)))
    like = np.linalg.eigh(x)[1]
    return values, vectors * np.sign((vectors * like).sum(-2, keepdims=True))


for batch in BATCHES:  # their gradients are those of functions of symmetric matrices: see test_matrix_gradients.py
    case("cholesky", symmetric(normal(*batch, 3, 3)), gradient=False, oracle=by_torch(torch.linalg.cholesky))
    case(
        "eigh", symmetric(normal(*batch, 3, 3)), gradient=False, tolerance=1e-10, tolerance32=1e-3, oracle=eigenvectors
    )


def with_signs(function, like, *axes):
    """PyTorch's factors, with the signs of NumPy's columns."""

    def oracle(x):
        theirs = [v.numpy() for v in function(torch.tensor(x, dtype=torch.float64))]
        own = like(x)
        sign = np.sign((theirs[0] * own[0]).sum(-2))
        return tuple(
            v if axis is None else v * np.expand_dims(sign, axis) for v, axis in zip(theirs, axes, strict=True)
        )

    return oracle


for shape in ((4, 3), (3, 3), (2, 3, 4)):
    case("pseudo_inverse_of", normal(*shape), np.linalg.pinv(normal(*shape)), oracle=lambda x, p: p, gradient=False)
for shape in ((4, 3), (3, 3), (2, 3, 4), (0, 2, 2)):
    case(
        "qr", normal(*shape), gradient=False, tolerance32=1e-4, oracle=with_signs(torch.linalg.qr, np.linalg.qr, -2, -1)
    )
    case(
        "svd",
        normal(*shape),
        gradient=False,
        tolerance32=1e-3,
        oracle=with_signs(
            lambda x: torch.linalg.svd(x, full_matrices=False),
            lambda x: np.linalg.svd(x, full_matrices=False),
            -2,
            None,
            -1,
        ),
    )
