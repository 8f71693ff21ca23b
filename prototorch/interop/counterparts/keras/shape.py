"""Keras' layers that move elements: other shapes and orders of axes, padding, cropping, upsampling."""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch import layers
from prototorch.interop.counterparts.keras.row import KerasRow
from prototorch.interop.counterparts.row import CounterpartRows
from prototorch.interop.keras.config_import.axis_orders import channels_first
from prototorch.interop.keras.config_import.config_fields import NotImportableError
from prototorch.interop.keras.config_import.layer_import import transposed
from prototorch.interop.keras.config_import.site import KerasLayerImport, Values


def _read_flatten(site: KerasLayerImport) -> Values:
    value = site.one()
    if site.config.get("data_format") == "channels_first" and value.rank > 1:
        return site.add(layers.Flatten(), [transposed(site, value, [*range(1, value.rank), 0])])
    if site.free_order and value.order == channels_first(value.rank):
        return site.add(layers.Flatten(), [value])
    return site.add(layers.Flatten(), [site.builder.as_keras(value)])


def _read_permute(site: KerasLayerImport) -> Values:
    value = site.one()
    dims = [int(d) - 1 for d in site.config.get("dims") or ()]
    if sorted(dims) != list(range(value.rank)):
        raise NotImportableError(f"dims={site.config.get('dims')} of a value of {value.rank + 1} axes")
    return (transposed(site, value, dims),)


def _operate_transpose(site: KerasLayerImport) -> Values:
    value = site.one()
    axes = site.config.get("axes", site.kwargs.get("axes")) or list(range(value.rank, -1, -1))
    axes = [int(axis) % (value.rank + 1) for axis in axes]
    if axes[0] != 0 or sorted(axes) != list(range(value.rank + 1)):
        raise NotImportableError(f"axes={axes} move the batch, which stays first here")
    return (transposed(site, value, [axis - 1 for axis in axes[1:]]),)


def _read_reshape(site: KerasLayerImport) -> Values:
    value = site.one()
    target = [-1 if n is None else int(n) for n in site.config["target_shape"]]
    known_size = prod(n for n in target if n != -1)
    if target.count(-1) > 1 or any(n < -1 or n == 0 for n in target):
        raise NotImportableError(f"target_shape={target} has no counterpart")
    shape = [prod(value.shape) // known_size if n == -1 else n for n in target]
    has_channels_last = value.rank > 1 and value.order == channels_first(value.rank)
    if has_channels_last or value.rank == 1:
        channels, outer = value.shape[0], prod(value.shape[1:])
        keeps_channels = len(shape) > 0 and shape[-1] == channels and (value.rank > 1 or prod(shape[:-1]) == 1)
        if keeps_channels and len(shape) > 1 and prod(shape[:-1]) == outer:
            # the channels stay the last axis there, the first one here
            moved = [target[-1], *target[:-1]]
            return site.add(layers.Reshape(moved), [value], channels_first(len(shape)))
        if len(shape) == 1 and outer == 1:
            return site.add(layers.Flatten(), [value])
    return site.add(layers.Reshape(target), [site.builder.as_keras(value)])


def _write_one_size(layer: Any, config: dict[str, Any]) -> None:
    """The sizes of the only axis without a list around them."""
    name = next(name for name in ("padding", "cropping", "size") if name in config)
    config[name] = config[name][0]


ROWS = CounterpartRows(
    system="keras",
    rows=(
        KerasRow(
            layers=(layers.Flatten,),
            data_format="channels_last",  # leaves the axes in the order that they have
            read=_read_flatten,
        ),
        KerasRow(layers=(layers.Permute,), operations=("Transpose",), operate=_operate_transpose, read=_read_permute),
        KerasRow(layers=(layers.Reshape,), read=_read_reshape),
        KerasRow(layers=(layers.RepeatVector,)),
        KerasRow(layers=(layers.ZeroPadding1D,), write=_write_one_size, passes_order=True),
        KerasRow(layers=(layers.ZeroPadding2D, layers.ZeroPadding3D)),
        KerasRow(layers=(layers.Cropping1D, layers.UpSampling1D), data_format="", write=_write_one_size),
        KerasRow(layers=(layers.Cropping2D, layers.Cropping3D)),
        KerasRow(layers=(layers.UpSampling2D, layers.UpSampling3D)),
    ),
)
