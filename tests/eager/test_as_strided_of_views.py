"""`as_strided` of views reads the memory of the tensor that owns it, as in PyTorch."""

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import ShapeError

torch = pytest.importorskip("torch")

VIEWS = {
    "row": lambda x: x[1],
    "column": lambda x: x[:, 1],
    "slice": lambda x: x[1:, 1:3],
    "transpose": lambda x: x.t(),
    "steps": lambda x: x[::2, ::2],
    "view of a view": lambda x: x[1:].t()[1:],
    "reshape": lambda x: x.view(-1)[3:],
}
STRIDED = [((2, 2), (1, 2), None), ((3,), (2,), None), ((2, 2), (4, 1), 0), ((4,), (0,), 5), ((2, 1, 2), (1, 7, 2), 3)]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("strided", STRIDED)
def test_elements_gradient_and_writes(view, strided):
    results = []
    for library in (torch, pt):
        x = library.arange(20.0).reshape(4, 5).requires_grad_()
        y = VIEWS[view](x * 1).as_strided(*strided)
        (y * y).sum().backward()
        base = library.arange(20.0).reshape(4, 5)
        written = VIEWS[view](base).as_strided(*strided)
        if strided[0] != (4,) and strided[1] != (1, 2):  # no element twice
            written += 100
        positions = VIEWS[view](library.arange(20).reshape(4, 5)).as_strided(*strided).numpy()
        results.append([y.detach().numpy(), positions, base.numpy(), np.array(written.stride())])
    for theirs, ours in zip(*results, strict=True):
        np.testing.assert_array_equal(theirs, ours)
    # PyTorch leaves out the gradient of elements that the view itself does not have; this is the whole derivative
    gradient = np.zeros(20, "float32")
    np.add.at(gradient, positions.reshape(-1), 2.0 * positions.reshape(-1))
    np.testing.assert_array_equal(x.grad.numpy().reshape(-1), gradient)


def test_beyond_the_memory():
    with pytest.raises(ShapeError, match="reach element 23 of 20"):
        pt.arange(20.0).reshape(4, 5)[3].as_strided((3, 2), (4, 1), 14)
