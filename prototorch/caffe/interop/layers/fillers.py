"""Caffe's fillers as initializers. Source: ``include/caffe/filler.hpp`` of BVLC/caffe."""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt

from prototorch import initializers
from prototorch.caffe.interop.layer_import import CaffeLayerImport
from prototorch.caffe.interop.numbers import shortest
from prototorch.caffe.text.message import Message
from prototorch.errors import did_you_mean
from prototorch.initializers.base import Initializer, compute_fans

__all__ = ["filler_initializer"]

Shape = tuple[int, ...]


def filler_initializer(
    site: CaffeLayerImport, filler: Message, blob: Shape, fans: tuple[int, int] | None = None, unit_axis: int = 0
) -> Initializer:
    """The initializer that draws as a filler does.

    filler: a FillerParameter. blob: the shape of the parameter blob in Caffe, by which its numbers of connections are
    computed. fans: those of our weight, where they are not `compute_fans` of the blob's shape. unit_axis: the axis of
    our weight that is axis 0 of the blob.
    Raises TextError for an unknown filler, and for fields that Caffe refuses.
    """
    make = _FILLERS.get(filler["type"])
    if make is None:
        hint = did_you_mean(filler["type"], _FILLERS)
        site.fail(
            f"Caffe has no filler {filler['type']!r}; there are {', '.join(sorted(_FILLERS))}.{hint}", filler, "type"
        )
    if filler["sparse"] != -1 and filler["type"] != "gaussian":
        site.fail(f"sparse is for gaussian fillers; this is a {filler['type']} filler", filler, "sparse")
    return make(site, filler, blob, fans or compute_fans(blob), unit_axis)


def _constant(site: CaffeLayerImport, filler: Message, blob: Shape, fans: Shape, axis: int) -> Initializer:
    value = shortest(filler["value"])
    if value in (0.0, 1.0):
        return initializers.Ones() if value else initializers.Zeros()
    return initializers.Constant(value=value)


def _uniform(site: CaffeLayerImport, filler: Message, blob: Shape, fans: Shape, axis: int) -> Initializer:
    low, high = shortest(filler["min"]), shortest(filler["max"])
    if not low <= high:
        site.fail(
            f"a uniform filler's min must not be above its max, but min is {low:g} and max is {high:g}",
            filler,
            "min" if filler.has("min") else "max",
        )
    return initializers.RandomUniform(minval=low, maxval=high)


def _gaussian(site: CaffeLayerImport, filler: Message, blob: Shape, fans: Shape, axis: int) -> Initializer:
    mean, stddev, sparse = shortest(filler["mean"]), shortest(filler["std"]), filler["sparse"]
    if not stddev > 0:
        site.fail(f"a gaussian filler's std must be above 0, not {stddev:g}", filler, "std")
    if sparse == -1:
        return initializers.RandomNormal(mean=mean, stddev=stddev)
    units = _unit_count(site, filler, blob)
    if not 0 <= sparse <= units:
        site.fail(
            f"sparse is the mean number of weights of an input that are not 0, from 0 to the {units} units of the "
            f"blob {list(blob)}, or -1; not {sparse}",
            filler,
            "sparse",
        )
    return initializers.SparseNormal(mean=mean, stddev=stddev, density=sparse / units)


def _positive_unitball(site: CaffeLayerImport, filler: Message, blob: Shape, fans: Shape, axis: int) -> Initializer:
    _unit_count(site, filler, blob)
    return initializers.PositiveUnitBall(axis=axis)


def _xavier(site: CaffeLayerImport, filler: Message, blob: Shape, fans: Shape, axis: int) -> Initializer:
    count = _connections(site, filler, blob)
    mode = _matching_mode(filler, count, fans)
    if mode == "fan_in":
        return initializers.LecunUniform()
    if mode == "fan_avg":
        return initializers.GlorotUniform()
    if mode == "fan_out":
        return initializers.VarianceScaling(mode=mode, distribution="uniform")
    limit = sqrt(3 / count)
    return initializers.RandomUniform(minval=-limit, maxval=limit)


def _msra(site: CaffeLayerImport, filler: Message, blob: Shape, fans: Shape, axis: int) -> Initializer:
    count = _connections(site, filler, blob)
    mode = _matching_mode(filler, count, fans)
    if mode is None:
        return initializers.RandomNormal(stddev=sqrt(2 / count))
    return initializers.VarianceScaling(scale=2.0, mode=mode, distribution="untruncated_normal")


def _bilinear(site: CaffeLayerImport, filler: Message, blob: Shape, fans: Shape, axis: int) -> Initializer:
    if len(blob) != 4 or blob[2] != blob[3]:
        site.fail(
            f"a bilinear filler needs a blob of 4 axes whose last two are equal, not {list(blob)}", filler, "type"
        )
    return initializers.Bilinear()


def _unit_count(site: CaffeLayerImport, filler: Message, blob: Shape) -> int:
    """The size of axis 0, the number of units."""
    if not blob:
        site.fail(
            f"a {filler['type']} filler counts along axis 0 of its blob, but the blob is a scalar", filler, "type"
        )
    return blob[0]


def _connections(site: CaffeLayerImport, filler: Message, blob: Shape) -> float:
    """The number of connections that the variance is divided by, from the blob's shape."""
    count = prod(blob)
    fan_in = count // max(_unit_count(site, filler, blob), 1)
    fan_out = count // max(blob[1], 1) if len(blob) > 1 else count
    norm = filler["variance_norm"]
    return {"FAN_IN": fan_in, "FAN_OUT": fan_out, "AVERAGE": (fan_in + fan_out) / 2}[norm] or 1


def _matching_mode(filler: Message, count: float, fans: Shape) -> str | None:
    """The mode of VarianceScaling that gives this number for our weight's fans; None where none does."""
    modes = {"fan_in": fans[0], "fan_out": fans[1], "fan_avg": sum(fans) / 2}
    first = {"FAN_IN": "fan_in", "FAN_OUT": "fan_out", "AVERAGE": "fan_avg"}[filler["variance_norm"]]
    return next((mode for mode in (first, *modes) if modes[mode] == count), None)


_FILLERS: dict[str, Callable[[CaffeLayerImport, Message, Shape, Shape, int], Initializer]] = {
    "constant": _constant,
    "uniform": _uniform,
    "gaussian": _gaussian,
    "positive_unitball": _positive_unitball,
    "xavier": _xavier,
    "msra": _msra,
    "bilinear": _bilinear,
}
