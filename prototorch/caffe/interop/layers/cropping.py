"""Crop: one blob cut to the size of another."""

from __future__ import annotations

from prototorch.caffe.interop.layer_import import CaffeLayerImport, translator
from prototorch.layers import CropLike


@translator("Crop")
def _crop(site: CaffeLayerImport) -> None:
    """One offset holds for all axes that are cropped."""
    site.check_counts(2, 1)
    param, (shape, like) = site.layer["crop_param"], site.bottom_shapes
    axis, offsets = site.canonical_axis(param["axis"], param), param["offset"]
    count = len(shape) - axis
    if len(offsets) > 1 and len(offsets) != count:
        site.fail(
            f"it has {len(offsets)} offsets; expected 1, or one for each of the {count} axes of {list(shape)} from "
            f"axis {axis} on",
            param,
            "offset",
        )
    if len(like) != len(shape):
        site.fail(f"its bottoms must have as many axes, not {list(shape)} and {list(like)}", site.layer, "bottom")
    each = (offsets or [0]) * (count if len(offsets) < 2 else 1)
    for i, offset in enumerate(each, axis):
        if offset + like[i] > shape[i]:
            site.fail(
                f"a crop of {like[i]} elements from {offset} on is not inside axis {i} of {list(shape)}; its size "
                f"is that of {list(like)}",
                param,
                "offset",
            )
    site.add(CropLike(axis=axis, offsets=offsets or [0]))
