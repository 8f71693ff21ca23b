"""Layers that multiply by a matrix or look its rows up: InnerProduct, Embed."""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch.caffe.interop.layer_import import CaffeLayerImport, translator
from prototorch.caffe.interop.layers.fillers import filler_initializer
from prototorch.caffe.text.message import Message
from prototorch.layers import Bias, Dense, Embedding, Flatten, Reshape
from prototorch.model.loading.layout.layout_table import WeightLayout


def _positive(site: CaffeLayerImport, param: Message, name: str) -> int:
    """A field that must be at least 1."""
    value = param[name] or 0
    if value < 1:
        site.fail(f"{name} must be at least 1" + (", not 0" if param.has(name) else "; it is missing"), param, name)
    return int(value)


def _biases(site: CaffeLayerImport, param: Message, units: int) -> dict[str, Any]:
    """``use_bias`` by ``bias_term``, and the initializer of its ``bias_filler``. units: the bias's size."""
    if not param["bias_term"]:
        return {"use_bias": False}
    return {"use_bias": True, "bias_initializer": filler_initializer(site, param["bias_filler"], (units,))}


@translator("InnerProduct")
def _inner_product(site: CaffeLayerImport) -> None:
    """The axes from ``axis`` on are one vector. The blob is [outputs, inputs]; with ``transpose`` the other way."""
    site.check_counts(1, 1)
    param, shape = site.layer["inner_product_param"], site.bottom_shapes[0]
    units = _positive(site, param, "num_output")
    axis = site.canonical_axis(param["axis"], param)
    length = prod(shape[axis:])
    is_transposed = param["transpose"]
    blob = (length, units) if is_transposed else (units, length)
    layer = Dense(
        units=units,
        kernel_initializer=filler_initializer(
            site, param["weight_filler"], blob, fans=(length, units), unit_axis=0 if is_transposed else 1
        ),
        **_biases(site, param, units),
    )
    names = ["kernel", "bias"] if param["bias_term"] else ["kernel"]
    layouts = [WeightLayout((n,), (str(i),)) for i, n in enumerate(names)] if is_transposed else None
    if axis == len(shape) - 1 and axis > 0:
        site.add(layer, layouts=layouts)
    elif axis == 1:
        site.add(layer, *site.add(Flatten(), suffix="flatten"), layouts=layouts)
    elif axis > 1:
        flat = Reshape(target_shape=(*shape[1:axis], length))
        site.add(layer, *site.add(flat, suffix="flatten"), layouts=layouts)
    else:  # all axes are one vector, and the output is one, too
        (flat_input,) = site.add(Reshape(target_shape=(1, -1), axis=0), suffix="flatten")
        (product,) = site.add(layer, flat_input, layouts=layouts)
        site.add(Reshape(target_shape=(units,), axis=0), product, suffix="output")


@translator("Embed")
def _embed(site: CaffeLayerImport) -> None:
    site.check_counts(1, 1)
    param = site.layer["embed_param"]
    units, count = _positive(site, param, "num_output"), _positive(site, param, "input_dim")
    table = filler_initializer(site, param["weight_filler"], (count, units), fans=(count, units))
    vectors = site.add(Embedding(input_dim=count, output_dim=units, embeddings_initializer=table))
    if param["bias_term"]:
        bias = filler_initializer(site, param["bias_filler"], (units,))
        site.add(Bias(axis=-1, bias_initializer=bias), *vectors, suffix="bias")
