"""Make a small class-balanced data set from a large one in IDX files. `fashion-mnist-mini` was made like this:

    python examples/make_small_set.py /usr/share/datasets/fashion-mnist prototorch/data/files \
        --name fashion-mnist-mini --train 600 --test 100

It takes the first pictures of each class, in the order of the large set, and writes four gzip-compressed IDX files
(the same bytes each time) and their sha256 sums.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
from pathlib import Path

import numpy as np

from prototorch.data.idx import encode_idx, read_idx


def first_of_each(labels: np.ndarray, count: int) -> np.ndarray:
    """The indices of the first ``count`` samples of each class, in the order of the set."""
    return np.sort(np.concatenate([np.flatnonzero(labels == label)[:count] for label in np.unique(labels)]))


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="folder with train-images-idx3-ubyte.gz and its three companions")
    parser.add_argument("target", type=Path, help="folder to write to")
    parser.add_argument("--name", required=True, help="name of the new set: its files begin with it")
    parser.add_argument("--train", type=int, default=600, help="training pictures of each class")
    parser.add_argument("--test", type=int, default=100, help="test pictures of each class")
    args = parser.parse_args()
    for part, count in (("train", args.train), ("t10k", args.test)):
        images = read_idx(args.source / f"{part}-images-idx3-ubyte.gz")
        labels = read_idx(args.source / f"{part}-labels-idx1-ubyte.gz")
        chosen = first_of_each(labels, count)
        for kind, array in (("images-idx3", images[chosen]), ("labels-idx1", labels[chosen])):
            data = gzip.compress(encode_idx(array), 9, mtime=0)
            path = args.target / f"{args.name}-{part}-{kind}-ubyte.gz"
            path.write_bytes(data)
            print(f"{hashlib.sha256(data).hexdigest()}  {path.name}  {len(data):,} bytes  {array.dtype}{array.shape}")


if __name__ == "__main__":
    main()
