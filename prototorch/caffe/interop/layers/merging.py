"""Layers of several bottoms or tops: Concat, Eltwise, Slice, Split."""

from __future__ import annotations

from prototorch import layers
from prototorch.caffe.interop.layer_import import CaffeLayerImport, translator
from prototorch.caffe.interop.numbers import field_number
from prototorch.caffe.text.message import Message


def _axis(site: CaffeLayerImport, param: Message, old_field: str) -> int:
    """The axis that a layer works along: ``axis``, or an older field that counts from 0 only."""
    if param.has("axis") and param.has(old_field):
        site.fail(f"it has axis and {old_field}; there is one axis", param, old_field)
    if not param.has(old_field):
        return site.canonical_axis(param["axis"], param)
    axis, ndim = int(param[old_field]), len(site.bottom_shapes[0])
    if axis >= ndim:
        site.fail(
            f"{old_field} {axis} is not one of the {ndim} axes of {list(site.bottom_shapes[0])}", param, old_field
        )
    return axis


@translator("Concat")
def _concat(site: CaffeLayerImport) -> None:
    site.check_counts((1, None), 1)
    axis = _axis(site, site.layer["concat_param"], "concat_dim")
    shapes = [list(shape) for shape in site.bottom_shapes]
    rest = [shape[:axis] + shape[axis + 1 :] for shape in shapes]
    if any(len(shape) != len(shapes[0]) for shape in shapes) or any(other != rest[0] for other in rest):
        site.fail(
            f"its bottoms {', '.join(map(str, shapes))} must be equal but along axis {axis}", site.layer, "bottom"
        )
    site.add(layers.Concatenate(axis=axis) if len(shapes) > 1 else layers.Linear())


@translator("Eltwise")
def _eltwise(site: CaffeLayerImport) -> None:
    site.check_counts((2, None), 1)
    param = site.layer["eltwise_param"]
    operation, coefficients = param["operation"], [field_number(site, c) for c in param["coeff"]]
    if len(coefficients) not in (0, len(site.bottoms)):
        site.fail(
            f"it has {len(coefficients)} coeff and {len(site.bottoms)} bottoms; one for each, or none", param, "coeff"
        )
    if operation == "PROD" and coefficients:
        site.fail("coeff is for the operation SUM, this is PROD", param, "coeff")
    site.check_same_shapes(site.bottoms, "its bottoms")
    if operation == "PROD":
        site.add(layers.Multiply())
    elif operation == "MAX":  # the first two in reverse order: where they are equal the second has the gradient
        site.add(layers.Maximum(), site.bottoms[1], site.bottoms[0], *site.bottoms[2:])
    else:
        _weighted_sum(site, coefficients)


def _weighted_sum(site: CaffeLayerImport, coefficients: list[float]) -> None:
    values = list(site.bottoms)
    for i, factor in enumerate(coefficients):
        if factor != 1:
            (values[i],) = site.add(layers.Rescaling(scale=factor), values[i], suffix=f"scaled{i}")
    site.add(layers.Add(), *values)


@translator("Slice")
def _slice(site: CaffeLayerImport) -> None:
    site.check_counts(1, (1, None))
    param, count = site.layer["slice_param"], site.num_tops
    axis = _axis(site, param, "slice_dim")
    size, points = site.bottom_shapes[0][axis], [int(point) for point in param["slice_point"]]
    where = f"axis {axis} of {list(site.bottom_shapes[0])}, which has {size} elements"
    if points:
        if len(points) != count - 1:
            site.fail(
                f"it has {len(points)} slice_point and {count} tops, which take {count - 1}", param, "slice_point"
            )
        if sorted({0, *points, size}) != [0, *points, size]:
            site.fail(f"slice_point {points} must ascend between 0 and the end of {where}", param, "slice_point")
    elif size % count:
        site.fail(f"{count} tops do not divide {where}; write slice_point", site.layer, "top")
    ends = [*points, size] if points else [size // count * (i + 1) for i in range(count)]
    sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    if len(sizes) == 1:
        site.add(layers.Linear())
    elif 0 in sizes:
        site.fail(f"there is nothing to slice along {where}", param)
    else:
        site.add(layers.Split(sizes=sizes, axis=axis), outputs=count)


@translator("Split")
def _split(site: CaffeLayerImport) -> None:
    site.check_counts(1, (1, None))
    site.add(layers.Copies(count=site.num_tops), outputs=site.num_tops)
