"""Layers without bottoms whose tops are inputs of the net."""

from __future__ import annotations

from prototorch.interop.caffe.site import CaffeSite, translator


@translator("Input")
def _input(site: CaffeSite) -> None:
    """``input_param { shape { dim: 1 dim: 3 } }``: one shape for each top, or one for all."""
    site.check_counts(0, (1, None))
    param = site.layer["input_param"]
    shapes: list[tuple[int, ...] | None] = [tuple(shape["dim"]) for shape in param["shape"]]
    if len(shapes) not in (0, 1, site.num_tops):
        site.fail(f"it has {len(shapes)} shapes for {site.num_tops} tops", param, "shape")
    known = shapes * site.num_tops if len(shapes) == 1 else shapes or [None] * site.num_tops
    site.add_inputs("native", known)


@translator("Data", "ImageData", "HDF5Data", "WindowData", "MemoryData")
def _data(site: CaffeSite) -> None:
    """A data source fills the tops; it knows their shapes."""
    site.check_counts(0, (1, None))
    site.add_inputs("data", [None] * site.num_tops)
