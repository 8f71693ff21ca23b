"""Keras computes in float64 here: some of its layers compute in the default type whatever they are told."""

import keras
import pytest


@pytest.fixture(autouse=True)
def _keras_in_float64():
    before = keras.config.floatx()
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx(before)
