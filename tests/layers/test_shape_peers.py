"""Layers that move elements, pad, crop and repeat them against Keras."""

import keras
import pytest

from tests.layers.compare import beside_keras, numbers, text_of, tupled

ROWS = [
    ("Flatten", (2, 3, 4), {}), ("Flatten", (3,), {}),
    ("Reshape", (2, 6), {"target_shape": [3, 4]}), ("Reshape", (2, 6), {"target_shape": [-1, 3]}),
    ("Permute", (2, 3, 4), {"dims": [3, 1, 2]}), ("RepeatVector", (3,), {"n": 4}),
    ("ZeroPadding1D", (2, 3), {"padding": 2}),
    ("ZeroPadding1D", (2, 3), {"padding": [0, 2]}), ("ZeroPadding1D", (2, 3), {}),
    ("ZeroPadding2D", (2, 3, 4), {}), ("ZeroPadding2D", (2, 3, 4), {"padding": [1, 2]}),
    ("ZeroPadding2D", (2, 3, 4), {"padding": [[1, 0], [2, 3]]}),
    ("ZeroPadding3D", (2, 2, 3, 4), {}), ("ZeroPadding3D", (2, 2, 3, 4), {"padding": [[1, 0], [0, 2], [0, 0]]}),
    ("Cropping1D", (2, 5), {}), ("Cropping1D", (2, 5), {"cropping": [0, 3]}),
    ("Cropping2D", (2, 5, 4), {}), ("Cropping2D", (2, 5, 4), {"cropping": [[1, 0], [2, 1]]}),
    ("Cropping3D", (2, 5, 4, 3), {}), ("Cropping3D", (2, 5, 4, 3), {"cropping": 1}),
    ("UpSampling1D", (2, 3), {"size": 3}),
    ("UpSampling2D", (2, 3, 2), {}), ("UpSampling2D", (2, 3, 2), {"size": [1, 3]}),
    ("UpSampling2D", (2, 3, 2), {"size": [2, 3], "interpolation": "bilinear"}),
    ("UpSampling3D", (1, 2, 3, 2), {}), ("UpSampling3D", (1, 2, 3, 2), {"size": [1, 2, 3]}),
]  # fmt: skip
LAST_ONLY = ("ZeroPadding1D", "Cropping1D", "UpSampling1D")  # Keras' know [batch, steps, channels] only


@pytest.mark.parametrize(("name", "shape", "options"), ROWS, ids=str)
def test_layer_is_keras(name, shape, options):
    kind = getattr(keras.layers, name)
    given = {k: tupled(v) for k, v in options.items()}
    if name in LAST_ONLY:
        turn = keras.layers.Permute((2, 1))
        layer = keras.Sequential([turn, kind(**given), keras.layers.Permute((2, 1))])
    else:
        spatial = name[-2:] in ("2D", "3D")
        layer = kind(**given, data_format="channels_first") if spatial else kind(**given)
    beside_keras(layer, text_of(name, options), [numbers(2, *shape)])
