"""Pooling against Keras (valid, same) and PyTorch (explicit padding, ceil mode, count_include_pad)."""

import keras
import pytest
import torch
import torch.nn.functional as F

from tests.layers.compare import SINGLE, beside_keras, beside_torch, numbers, text_of, tupled
from tests.layers.peers import TOLERANCE

SIZES = {1: (7, 2), 2: (2, 6, 7), 3: (1, 4, 3, 5)}
WINDOWS = {
    1: [{}, {"pool_size": 3, "strides": 2}, {"pool_size": 3, "strides": 2, "padding": "same"}, {"padding": "same"}],
    2: [
        {},
        {"pool_size": [2, 3], "strides": [1, 2]},
        {"pool_size": 3, "strides": 2, "padding": "same"},
        {"pool_size": 3, "strides": 1, "padding": "same"},
        {"pool_size": 2, "strides": 3, "padding": "same"},
        {"pool_size": 1, "strides": 2},
    ],
    3: [{}, {"pool_size": [1, 2, 3], "strides": 2, "padding": "same"}],
}
# Keras on PyTorch repeats border elements where "same" pads one side more than the other, which changes means (on its
# other back ends, as here, they do not count): the rows of test_same_average_leaves_the_padding_out replace these.
UNEVEN = [{"padding": "same"}, {"pool_size": 3, "strides": 2, "padding": "same"}, WINDOWS[3][1]]
ROWS = [
    (f"{kind}Pooling{r}D", r, o)
    for kind in ("Max", "Average")
    for r in (1, 2, 3)
    for o in WINDOWS[r]
    if kind == "Max" or o not in UNEVEN
]


def keras_format(rank):
    """Keras' data_format: its own over sequences, over images and volumes the one that is default here."""
    return {} if rank == 1 else {"data_format": "channels_first"}


@pytest.mark.parametrize(("name", "rank", "options"), ROWS, ids=lambda v: str(v))
def test_pooling_is_keras(name, rank, options):
    given = {"pool_size": 2} | {k: tupled(v) for k, v in options.items()}
    layer = getattr(keras.layers, name)(**given, **keras_format(rank))
    tolerance = SINGLE if name.startswith("Average") else TOLERANCE
    beside_keras(layer, text_of(name, options), [numbers(2, *SIZES[rank])], tolerance=tolerance)


@pytest.mark.parametrize("kind", ["Max", "Average"])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("keepdims", [False, True])
def test_global_pooling_is_keras(kind, rank, keepdims):
    name = f"Global{kind}Pooling{rank}D"
    layer = getattr(keras.layers, name)(keepdims=keepdims, **keras_format(rank))
    beside_keras(layer, text_of(name, {"keepdims": keepdims}), [numbers(2, *SIZES[rank])], tolerance=SINGLE)
    reduce = torch.amax if kind == "Max" else torch.mean
    over = tuple(range(2, rank + 2))
    text = text_of(name, {"keepdims": keepdims, "data_format": "channels_first"})
    beside_torch(lambda x, w: reduce(x[0], over, keepdim=keepdims), text, [numbers(2, *SIZES[rank])])


EXPLICIT = [
    {"pool_size": 3, "strides": 2, "padding": 1},
    {"pool_size": 3, "strides": 2, "padding": 1, "ceil_mode": True},
    {"pool_size": 3, "strides": 2, "ceil_mode": True},
    {"pool_size": [2, 3], "strides": [3, 2], "padding": [1, 1], "ceil_mode": True},
    {"pool_size": 2, "strides": 3, "padding": [0, 1], "ceil_mode": True},
]


@pytest.mark.parametrize("options", EXPLICIT, ids=str)
@pytest.mark.parametrize("size", [(6, 7), (5, 8)])
def test_max_pooling_is_pytorch(options, size):
    window = [options.get(k, 0) for k in ("pool_size", "strides", "padding")]
    ceil = options.get("ceil_mode", False)
    beside_torch(
        lambda x, w: F.max_pool2d(x[0], *window, ceil_mode=ceil),
        text_of("MaxPooling2D", options),
        [numbers(2, 2, *size)],
    )


@pytest.mark.parametrize("options", EXPLICIT, ids=str)
@pytest.mark.parametrize("size", [(6, 7), (5, 8)])
@pytest.mark.parametrize("counted", [False, True])
def test_average_pooling_is_pytorch(options, size, counted):
    window = [options.get(k, 0) for k in ("pool_size", "strides", "padding")]
    ceil = options.get("ceil_mode", False)
    text = text_of("AveragePooling2D", options | {"count_include_pad": counted})
    beside_torch(
        lambda x, w: F.avg_pool2d(x[0], *window, ceil_mode=ceil, count_include_pad=counted),
        text,
        [numbers(2, 2, *size)],
    )


@pytest.mark.parametrize("size", [5, 6, 7])
@pytest.mark.parametrize("pool", [2, 3, 4])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_same_average_leaves_the_padding_out(size, pool, stride):
    """ceil(size / stride) windows, the odd place at the end, each mean over what lies inside the input (TensorFlow)."""
    total = max((-(-size // stride) - 1) * stride + pool - size, 0)
    pads = (total // 2, total - total // 2)

    def mean(x, w):
        def sums(v):
            return F.avg_pool1d(F.pad(v, pads), pool, stride) * pool

        return sums(x[0]) / sums(torch.ones_like(x[0]))

    options = {"pool_size": pool, "strides": stride, "padding": "same"}
    text = text_of("AveragePooling1D", options | {"data_format": "channels_first"})
    beside_torch(mean, text, [numbers(2, 2, size)])


def test_one_sided_padding():
    """A pair for each dimension: padding only before is pooling of the input with so much in front."""
    text = "MaxPooling2D { pool_size: 2  padding: [[1, 0], [0, 1]] }"
    beside_torch(
        lambda x, w: F.max_pool2d(F.pad(x[0], (0, 1, 1, 0), value=-float("inf")), 2), text, [numbers(2, 2, 5, 5)]
    )
