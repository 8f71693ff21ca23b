"""A layer of your own in one file: from here on it is named in a text like any other, trained, saved and loaded.

    python examples/custom_layer.py

The class is the whole declaration. Its fields are checked in a text and from Python, its docstring is its manual page,
its gradient follows from the ops it is said in, and its examples are what `check_layer` tests it on.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import prototorch as pt
from prototorch import ops
from prototorch.initializers.base import Initializer
from prototorch.layers.context import Context
from prototorch.schema import example, field
from prototorch.testing import check_layer


class RadialBasis(pt.Layer):
    """exp(-|x - centre|^2 / (2 width^2)) for each of ``units`` centres (Broomhead and Lowe, 1988).

    Input [batch, n], output [batch, units]. The weight is ``centres`` [units, n].
    """

    units: int = field(min=1, doc="How many centres.")
    width: float = field(default=1.0, above=0, doc="How far a centre reaches.")
    centres_initializer: Initializer = field(default="random_normal", doc="Where the centres begin.")

    examples = [example("RadialBasis { units: 3 }", inputs=[(2,)])]

    def call(self, ctx: Context, x: Any) -> Any:
        if x.ndim != 2:
            ctx.fail("it wants an input [n]")
        centres = ctx.weight("centres", (self.units, x.shape[1]), self.centres_initializer)
        away = ops.expand_dims(x, 1) - centres  # [batch, units, n]
        return ops.exp(ops.sum(ops.square(away), axis=-1) * (-0.5 / self.width**2))


TEXT = """
name: "bump"

input { name: "point"  shape: [2] }
RadialBasis { units: 12  width: 0.5  centres_initializer: random_uniform { minval: -1  maxval: 1 } }
Dense { units: 1  name: "height" }

compile { loss: mse  optimizer: Adam { learning_rate: 0.02 } }
"""


def main() -> None:
    """Check the layer, train a text that names it, save and load it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=60)
    args = parser.parse_args()
    print(f"{check_layer(RadialBasis)} kinds of checks passed: its gradients, and plan against tape, are among them")
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(512, 2)).astype(np.float32)
    y = np.sin(3 * x[:, :1]) * np.cos(2 * x[:, 1:])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bump.proto"
        path.write_text(TEXT, encoding="utf-8")
        model = pt.load_model(path)
        losses = model.fit(x, y, epochs=args.epochs, batch_size=32, verbose=0).history["loss"]
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
        model.save(Path(folder) / "bump.h5")
        again = pt.load_model(Path(folder) / "bump.h5")
        print(f"loaded again, the same predictions: {np.array_equal(again.predict(x), model.predict(x))}")


if __name__ == "__main__":
    main()
