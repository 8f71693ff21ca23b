"""Layers that multiply by a matrix: InnerProduct, ReLU."""

from __future__ import annotations

from prototorch.interop.caffe.site import CaffeSite, translator
from prototorch.layers import ReLU


@translator("ReLU")
def _relu(site: CaffeSite) -> None:
    site.check_counts(1, 1)
    site.add(ReLU())
