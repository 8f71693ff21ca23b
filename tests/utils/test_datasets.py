"""Data sets and default_collate, against PyTorch's."""

from collections import OrderedDict, UserDict, deque, namedtuple

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import DataError, UsageError
from prototorch.utils import data
from tests.utils.sample_datasets import Squares, Stream

torch = pytest.importorskip("torch")
Point = namedtuple("Point", ["x", "y"])


def both(value):
    """A value with arrays as tensors of ours and as PyTorch's."""
    if isinstance(value, np.ndarray):
        return pt.tensor(value), torch.from_numpy(value.copy())
    return value, value


def check(ours, theirs):
    """The same structure, types, dtypes, shapes and elements."""
    if isinstance(theirs, torch.Tensor):
        assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2]
        assert tuple(ours.shape) == tuple(theirs.shape)
        assert np.array_equal(ours.numpy(), theirs.numpy())
    elif isinstance(theirs, dict | UserDict):
        assert type(ours) is type(theirs)
        assert list(ours) == list(theirs)
        for key in theirs:
            check(ours[key], theirs[key])
    elif isinstance(theirs, str | bytes):
        assert ours == theirs
    elif hasattr(theirs, "__len__"):
        assert type(ours) is type(theirs)
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            check(a, b)
    else:
        assert ours == theirs


SAMPLES = [
    [1, 2], [1.5, 2], [True, False], [1, True], [np.float32(1), np.float32(2)], [np.int8(1), np.int8(3)],
    [np.array(1.5), np.array(2.5)], [np.ones((2, 3), np.float16)] * 2, [np.array([True])] * 3, ["a", "bc"],
    [b"x", b"y"], [(1, "a"), (2, "b")], [[1, 2.5], [3, 4.5]], [{"k": 1, "j": [1, 2]}, {"j": [3, 4], "k": 2}],
    [OrderedDict(b=1, a=2)] * 2, [Point(1, "s"), Point(2, "t")], [((1, (2.0,)),)] * 2, [[], []],
    [UserDict(a=1)] * 2, [{"a": {"b": {"c": np.arange(3)}}}] * 2, [deque([1, 2])] * 2,
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(SAMPLES)))
def test_collated_batches_are_those_of_pytorch(number):
    batch = SAMPLES[number]
    check(data.default_collate(batch), torch.utils.data.default_collate(batch))


@pytest.mark.parametrize("number", range(len(SAMPLES)))
def test_converted_samples_are_those_of_pytorch(number):
    sample = SAMPLES[number][0]
    check(data.default_convert(sample), torch.utils.data.default_convert(sample))


def test_tensors_are_stacked_and_their_gradients_go_on():
    arrays = [np.arange(4.0, dtype=np.float32).reshape(2, 2) + i for i in range(3)]
    check(data.default_collate([pt.tensor(a) for a in arrays]), torch.stack([torch.from_numpy(a) for a in arrays]))
    leaf = pt.tensor(arrays[0], requires_grad=True)
    (data.default_collate([leaf, leaf * 2])).sum().backward()
    assert leaf.grad.numpy().tolist() == [[3, 3], [3, 3]]


@pytest.mark.parametrize(("batch", "message"), [
    ([], "empty"), ([object(), object()], "builtins.object"), ([None, None], "NoneType"),
    ([np.zeros(2), np.zeros(3)], r"different shapes \(\[2\], \[3\]\)"), ([np.array(["a"])] * 2, "<U1"),
    ([(1, 2), (1,)], "different numbers"), ([{"a": 1}, {"b": 1}], "no 'a'"), ([{1, 2}], "set"),
], ids=["empty", "object", "none", "shapes", "text", "lengths", "keys", "set"])  # fmt: skip
def test_what_cannot_be_collated_is_an_error_in_words(batch, message):
    with pytest.raises(DataError, match=message):
        data.default_collate(batch)


def test_data_sets_are_joined_and_stacked():
    first, second = Squares(3), Squares(5)
    joined = first + second
    assert len(joined) == 8
    assert [s[1] for s in joined] == [0, 1, 4, 0, 1, 4, 9, 16]
    assert joined[-1][1] == 16
    for index in (8, -9):
        with pytest.raises(IndexError):
            joined[index]
    pairs = data.StackDataset(range(4), "abcd")
    assert len(pairs) == 4
    assert pairs[2] == (2, "c")
    assert pairs.__getitems__([3, 0]) == [(3, "d"), (0, "a")]
    named = data.StackDataset(x=range(4), y="abcd")
    assert named[1] == {"x": 1, "y": "b"}
    assert named.__getitems__([2]) == [{"x": 2, "y": "c"}]
    assert list(Stream(3) + Stream(2)) == [0, 1, 2, 0, 1]
    part = data.Subset(range(10), [7, 3])
    assert list(part) == [7, 3]
    assert len(part) == 2


def test_tensor_data_sets_give_rows():
    x, y = np.arange(6.0).reshape(3, 2), np.arange(3)
    ours = data.TensorDataset(pt.tensor(x), pt.tensor(y))
    theirs = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    assert len(ours) == 3
    for index in (0, 2, -1, np.int64(1)):
        for a, b in zip(ours[index], theirs[index], strict=True):
            check(a, b)
    assert [int(label) for _, label in ours] == [0, 1, 2]


@pytest.mark.parametrize("make", [
    lambda: data.TensorDataset(), lambda: data.TensorDataset(pt.tensor([1.0]), pt.tensor([1.0, 2.0])),
    lambda: data.TensorDataset(np.zeros(3)), lambda: data.TensorDataset(pt.tensor(1.0)), lambda: data.StackDataset(),
    lambda: data.StackDataset(range(2), x=range(2)), lambda: data.StackDataset(range(2), range(3)),
    lambda: data.ConcatDataset([]), lambda: data.ConcatDataset([Stream(2)]),
    lambda: list(data.ChainDataset([range(2)])),
])  # fmt: skip
def test_wrong_parts_are_refused(make):
    with pytest.raises(UsageError):
        make()


def test_a_data_set_that_defines_nothing_names_the_method():
    class Empty(data.Dataset):
        pass

    class Silent(data.IterableDataset):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty must define __getitem__"):
        Empty()[0]
    with pytest.raises(NotImplementedError, match=r"Silent must define __iter__"):
        iter(Silent())
