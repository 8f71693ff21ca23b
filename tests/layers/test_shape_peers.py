"""Layers that move elements, pad, crop and repeat them against Keras."""

import keras
import pytest

from tests.layers.compare import beside_keras, numbers, text_of, tupled

ROWS = [
    ("Flatten", (2, 3, 4), {}), ("Flatten", (3,), {}),
    ("Reshape", (2, 6), {"target_shape": [3, 4]}), ("Reshape", (2, 6), {"target_shape": [-1, 3]}),
    ("Permute", (2, 3, 4), {"dims": [3, 1, 2]}), ("RepeatVector", (3,), {"n": 4}),
    ("ZeroPadding1D", (3, 2), {"padding": 2}),
    ("ZeroPadding1D", (3, 2), {"padding": [0, 2]}), ("ZeroPadding1D", (3, 2), {}),
    ("ZeroPadding2D", (2, 3, 4), {}), ("ZeroPadding2D", (2, 3, 4), {"padding": [1, 2]}),
    ("ZeroPadding2D", (2, 3, 4), {"padding": [[1, 0], [2, 3]]}),
    ("ZeroPadding3D", (2, 2, 3, 4), {}), ("ZeroPadding3D", (2, 2, 3, 4), {"padding": [[1, 0], [0, 2], [0, 0]]}),
    ("Cropping1D", (5, 2), {}), ("Cropping1D", (5, 2), {"cropping": [0, 3]}),
    ("Cropping2D", (2, 5, 4), {}), ("Cropping2D", (2, 5, 4), {"cropping": [[1, 0], [2, 1]]}),
    ("Cropping3D", (2, 5, 4, 3), {}), ("Cropping3D", (2, 5, 4, 3), {"cropping": 1}),
    ("UpSampling1D", (3, 2), {"size": 3}),
    ("UpSampling2D", (2, 3, 2), {}), ("UpSampling2D", (2, 3, 2), {"size": [1, 3]}),
    ("UpSampling2D", (2, 3, 2), {"size": [2, 3], "interpolation": "bilinear"}),
    ("UpSampling3D", (1, 2, 3, 2), {}), ("UpSampling3D", (1, 2, 3, 2), {"size": [1, 2, 3]}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shape", "options"), ROWS, ids=str)
def test_layer_is_keras(name, shape, options):
    given = {k: tupled(v) for k, v in options.items()}
    if name[-2:] in ("2D", "3D"):  # for images and volumes the default here is not Keras'
        given["data_format"] = "channels_first"
    beside_keras(getattr(keras.layers, name)(**given), text_of(name, options), [numbers(2, *shape)])
