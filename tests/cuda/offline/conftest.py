"""The device that the kernels' logic is tried on."""

import pytest

from tests.cuda.offline.shim_device import REAL_BLOCKS, ShimDevice
from tests.cuda.offline.small_tiles import shrink_tiles


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    return ShimDevice(str(tmp_path_factory.mktemp("shim")))


@pytest.fixture(autouse=True)
def _small_tiles(request, monkeypatch):
    """So that few threads make a tile of a product, where the CPU plays them. Tiles of their real
    size under the address sanitizer."""
    if "device" not in request.fixturenames or REAL_BLOCKS:
        return
    shrink_tiles(monkeypatch.setattr)
