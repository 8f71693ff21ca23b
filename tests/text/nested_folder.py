"""The folder of nets that tests put into another net."""

import prototorch as pt

BASE = """
name: "base"
param width: 4
param rate: 0.5
input { name: "v"  shape: [6] }
Dense { name: "a"  units: $width  activation: tanh }
Dropout { rate: $rate }
Dense { name: "b"  units: 5 }
compile { loss: mse  optimizer: adam }
"""
PAIR = """
input { name: "l"  shape: [3] }
input { name: "r"  shape: [3] }
Dense { name: "tower_l"  bottom: "l"  units: 2  weights: "tower" }
Dense { name: "tower_r"  bottom: "r"  units: 2  weights: "tower" }
Subtract { name: "d"  bottom: ["tower_l", "tower_r"] }
Dense { name: "twice"  units: 2  share { weight: "kernel"  source: "sq/kernel" } }
Add { name: "sum"  bottom: ["d", "twice"] }
output: ["d", "sum"]
""".replace('Dense { name: "twice"', 'Dense { name: "sq"  units: 2 }\nDense { name: "twice"')


def write_nets(folder):
    """Write the nets; gives the folder."""
    (folder / "base.proto").write_text(BASE)
    (folder / "pair.proto").write_text(PAIR)
    return folder


def model_of(folder, text, **options):
    """The model of a text in the folder."""
    (folder / "outer.proto").write_text(text)
    return pt.load_model(folder / "outer.proto", **options)
