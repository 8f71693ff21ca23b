"""Numbers of Caffe's files, which are of single precision, in the fields of our layers."""

from __future__ import annotations

from math import isfinite

import numpy as np

from prototorch.caffe.interop.layer_import import CaffeLayerImport

__all__ = ["field_number", "shortest"]


def shortest(value: float) -> float:
    """The number of the fewest digits that is the same in single precision."""
    return float(str(np.float32(value))) if isfinite(value) else value


def field_number(site: CaffeLayerImport, value: float) -> float:
    """A number of a layer of a net in single precision as a person would write it; in double precision as it is."""
    return shortest(value) if site.trace.float_dtype == "float32" else value
