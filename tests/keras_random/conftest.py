"""Keras' default type is float32 in each case, whatever ran before; a case may set another, and it is set back."""

from __future__ import annotations

import keras
import pytest

from tests.keras_random.draw import set_keras_dtype


@pytest.fixture(autouse=True)
def _keras_in_float32():
    floatx, policy = keras.config.floatx(), keras.config.dtype_policy()
    set_keras_dtype("float32")
    yield
    keras.config.set_floatx(floatx)
    keras.config.set_dtype_policy(policy)
