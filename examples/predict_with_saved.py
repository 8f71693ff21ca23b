"""Load a saved model and predict: the file holds text and weights, nothing else is needed.

python examples/train_on_arrays.py --save spirals.h5
python examples/predict_with_saved.py spirals.h5 0.5,0.1 0.7,-0.2
"""

from __future__ import annotations

import argparse

import numpy as np

import prototorch as pt


def numbers(text: str) -> list[float]:
    """ "0.5,0.1" -> [0.5, 0.1]."""
    return [float(part) for part in text.split(",")]


def main() -> None:
    """Read the command line, predict, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a file that Model.save wrote")
    parser.add_argument("points", nargs="+", type=numbers, help="one sample each: numbers with commas between them")
    args = parser.parse_args()
    model = pt.load_model(args.model)
    model.summary()
    scores = model.predict(np.array(args.points, np.float32))
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    for point, share in zip(args.points, shares, strict=True):
        print(f"{point}: class {share.argmax()} ({share.max():.0%})")


if __name__ == "__main__":
    main()
