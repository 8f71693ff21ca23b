"""What all tests share: the peers (Keras, PyTorch) are used in one way everywhere."""

import os
import sys

import pytest

from tests.spread import choose_spread

# Tests start many processes of the package, which take twice as long where each compiles its modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ.setdefault("KERAS_BACKEND", "torch")  # before anything imports Keras
os.environ["PROTOTORCH_DEVICE"] = "cpu"  # what "auto" means: the tests are about the CPU, unless they say otherwise


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """PyTorch on one thread: the tests run beside each other. It is imported by the modules that compare with it."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def pytest_addoption(parser):
    parser.addoption("--spread", type=int, metavar="N", help="N tests of the selection, taken from all kinds")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    count = config.getoption("--spread")
    if count:
        chosen = set(choose_spread([item.nodeid for item in items], count))
        items[:] = [item for item in items if item.nodeid in chosen]
