"""Write the small Fashion-MNIST of the package as HDF5 files and lists, for the data layers of `train_test.prototxt`.

python make_data.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import h5py
import numpy as np

from prototorch.data import open_source


def main() -> None:
    """Write train.h5, test.h5 and their lists to the folder, the working directory by default."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    splits = open_source("fashion-mnist-mini")
    for part in ("train", "test"):
        columns = splits[part].read(np.arange(len(splits[part])))
        images = np.asarray(columns["image"], np.float32).reshape(-1, 1, 28, 28) / 255
        with h5py.File(folder / f"{part}.h5", "w") as file:
            file["data"], file["label"] = images, np.asarray(columns["label"], np.float32)
        (folder / f"{part}.txt").write_text(f"{part}.h5\n")
        print(f"{folder / part}.h5: {len(images)} images")


if __name__ == "__main__":
    main()
