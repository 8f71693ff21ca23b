"""Checks on a GPU: `pytest -m gpu tests/gpu` is all of them. Where there is none, they are skipped with the reason."""

import pytest

from prototorch.backends import devices
from prototorch.backends.precision import Settings, precision_of


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name == "gpu":
            item.add_marker(pytest.mark.gpu)


@pytest.fixture
def gpu():
    """Makes the GPU's backend: gpu("bf16"), gpu("fp32", deterministic=True)."""

    def backend(word="fp32", **settings):
        return devices.cuda_backend(Settings(precision_of(word, gpu=True), **settings))

    return backend
