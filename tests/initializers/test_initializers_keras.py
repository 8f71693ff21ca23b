"""Every initializer draws from the distribution of Keras' of the same name, with the same fans; those that are not
random give the same values."""

import inspect

import keras
import numpy as np
import pytest

from prototorch import initializers as ours
from prototorch.initializers import Initializer

SHAPE, FANS = (300, 500), (300, 500)
CASES = {
    "Zeros": [{}], "Ones": [{}], "Constant": [{"value": 2.5}], "Identity": [{}, {"gain": 3.0}],
    "RandomUniform": [{}, {"minval": 1.0, "maxval": 2.0}], "RandomNormal": [{}, {"mean": 1.0, "stddev": 2.0}],
    "TruncatedNormal": [{}, {"mean": 1.0, "stddev": 2.0}], "Orthogonal": [{}, {"gain": 3.0}],
    "GlorotUniform": [{}], "GlorotNormal": [{}], "HeUniform": [{}], "HeNormal": [{}], "LecunUniform": [{}],
    "LecunNormal": [{}],
    "VarianceScaling": [
        {"scale": scale, "mode": mode, "distribution": distribution}
        for scale in (1.0, 3.0)
        for mode in ("fan_in", "fan_out", "fan_avg")
        for distribution in ("truncated_normal", "untruncated_normal", "uniform")
    ],
}  # fmt: skip
#: a flag of Keras' LSTM, compared in tests/layers; Caffe's fillers, in tests/caffe
NOT_IN_KERAS = {"UnitForgetBias", "Bilinear", "PositiveUnitBall", "SparseNormal"}
MOMENTS = 6 / np.sqrt(np.prod(SHAPE))  # six standard errors of a mean, as a share of the deviation; of two samples


def test_every_initializer_is_compared():
    assert CASES.keys() | NOT_IN_KERAS == {cls.__name__ for cls in Initializer.members().values()}


@pytest.mark.parametrize(("name", "fields"), [(name, case) for name, cases in CASES.items() for case in cases])
def test_distribution_equals_keras(name, fields):
    theirs = getattr(keras.initializers, name)
    seed = {"seed": 1} if "seed" in inspect.signature(theirs).parameters else {}
    expected = theirs(**fields, **seed)(SHAPE).detach().numpy().astype(np.float64)
    values = getattr(ours, name)(**fields).values(SHAPE, np.random.default_rng(0), FANS).astype(np.float64)
    assert values.shape == SHAPE
    if not seed:
        np.testing.assert_array_equal(values, expected)
        return
    deviation = expected.std()
    assert abs(values.mean() - expected.mean()) < 2 * MOMENTS * deviation
    assert abs(values.std() / deviation - 1) < 2 * MOMENTS
    kurtosis = [(((v - v.mean()) / v.std()) ** 4).mean() for v in (values, expected)]  # 1.8 uniform, 2.1 cut, 3 normal
    assert abs(kurtosis[0] - kurtosis[1]) < 0.2
    if name == "Orthogonal":
        product = values @ values.T
        np.testing.assert_allclose(product, np.eye(SHAPE[0]) * product[0, 0], atol=1e-4)
        np.testing.assert_allclose(product[0, 0], fields.get("gain", 1.0) ** 2, rtol=1e-4)
