"""Memory shared with NumPy and PyTorch by DLPack."""

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.errors import GradientError, UsageError

DTYPES = ["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("read", [np.from_dlpack, torch.from_dlpack, pt.from_dlpack], ids=["numpy", "torch", "own"])
def test_others_read_our_memory(read, dtype):
    x = pt.tensor(np.arange(6).reshape(2, 3), dtype=dtype)
    theirs = read(x)
    np.testing.assert_array_equal(np.asarray(theirs), x.numpy())
    assert str(theirs.dtype).removeprefix("torch.") == dtype
    x[0, 1] = 0
    assert theirs[0, 1] == 0
    assert np.asarray(read(x.t())).tolist() == x.t().tolist()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", [np.array, torch.tensor], ids=["numpy", "torch"])
def test_we_read_the_memory_of_others(make, dtype):
    name = dtype if make is np.array else getattr(torch, dtype)
    theirs = make([[0, 1, 2], [3, 4, 5]], dtype=name)
    x = pt.from_dlpack(theirs)
    assert x.tolist() == theirs.tolist()
    assert x.dtype == dtype
    x[1, 0] = 1
    assert theirs[1, 0] == 1
    assert pt.from_dlpack(theirs.T).tolist() == theirs.T.tolist()
    copy = pt.from_dlpack(theirs, copy=True)
    copy[0, 0] = 1
    assert theirs[0, 0] == 0


def test_an_array_that_is_read_only_is_copied():
    array = np.arange(3.0)
    array.flags.writeable = False
    x = pt.from_dlpack(array)
    x[0] = 5.0
    assert array[0] == 0
    with pytest.raises(UsageError, match="read-only"):
        pt.from_dlpack(array, copy=False)


def test_what_cannot_be_exchanged():
    with pytest.raises(GradientError, match=r"take detach\(\)"):
        np.from_dlpack(pt.tensor([1.0], requires_grad=True))
    with pytest.raises(UsageError, match="bfloat16"):
        np.from_dlpack(pt.tensor([1.0], dtype=pt.bfloat16))
    with pytest.raises(UsageError, match="no tensors of elements complex64"):
        pt.from_dlpack(np.zeros(2, "complex64"))
    with pytest.raises(UsageError, match="with __dlpack__, got list"):
        pt.from_dlpack([1, 2])


def test_the_device():
    assert pt.tensor([1.0]).__dlpack_device__() == (1, 0)
