"""The declaration of a net's input, in a text and in Python alike."""

from __future__ import annotations

from prototorch.layers.channels import DataFormat
from prototorch.schema import Block, Dims, Identifier, field
from prototorch.schema.call_schema import class_schema
from prototorch.text.call_schema import SchemaSource


class NetInput(Block):
    """An input of the net: ``input { name: "image"  shape: [3, 224, 224] }``."""

    display_name = "input"

    name: str = field("input", type=Identifier(), doc="Name by which layers and data refer to it.")
    shape: tuple[int | None, ...] = field(
        type=Dims(), doc="Shape without the batch dimension; none: known when data are bound."
    )
    dtype: str = field(
        "float32",
        choices=("float32", "float64", "float16", "int32", "int64", "uint8", "int8", "bool"),
        doc="Dtype of the elements.",
    )
    data_format: DataFormat | None = field(
        None,
        doc="The axis of the channels of its samples, which images from files, preprocess and augment follow; default: "
        "that of the text, else the first for images and volumes, the last for tables and sequences.",
    )


INPUT_SCHEMA = SchemaSource(name="input", find=lambda _: class_schema(NetInput))
INPUT_LAYER_SCHEMA = SchemaSource(name="Input", find=lambda _: class_schema(NetInput))
