"""Keras computes in float64 here: some of its layers compute in the default type whatever they are told."""

import keras
import pytest


@pytest.fixture(autouse=True)
def _keras_in_float64():
    floatx, policy = keras.config.floatx(), keras.config.dtype_policy()  # the policy is that of the first layer made
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_floatx(floatx)
    keras.config.set_dtype_policy(policy)
