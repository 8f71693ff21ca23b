"""What all tests share: the peers (Keras, PyTorch) are used in one way everywhere."""

import os
import sys

import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")  # before anything imports Keras
os.environ["PROTOTORCH_DEVICE"] = "cpu"  # what "auto" means: the tests are about the CPU, unless they say otherwise


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """PyTorch on one thread: the tests run beside each other. It is imported by the modules that compare with it."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
