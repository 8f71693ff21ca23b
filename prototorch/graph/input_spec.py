"""What a text and Python alike declare of an input."""

from __future__ import annotations

from prototorch.schema import Block, Dims, Identifier, field


class NetInput(Block):
    """An input of the net: ``input { name: "image"  shape: [3, 224, 224] }``."""

    display_name = "input"

    name: str = field("input", type=Identifier(), doc="Its name, by which layers and data are tied to it.")
    shape: tuple[int | None, ...] = field(type=Dims(), doc="Its shape without the batch dimension; none: found later.")
    dtype: str = field(
        "float32",
        choices=("float32", "float64", "float16", "int32", "int64", "uint8", "int8", "bool"),
        doc="Its element type.",
    )
