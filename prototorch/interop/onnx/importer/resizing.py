"""Resampling: Resize, and Upsample of older opsets."""

from __future__ import annotations

from math import floor

from prototorch import layers
from prototorch.interop.onnx.importer.builder import NetBuilder
from prototorch.interop.onnx.importer.node import OnnxNode
from prototorch.interop.onnx.importer.operands import BatchSize, NetValue, Operand, positive_axes
from prototorch.interop.onnx.importer.registry import NoLayerError, imports

__all__: list[str] = []


@imports("Resize", "Upsample")
def _resize(b: NetBuilder, node: OnnxNode) -> Operand:
    x = node.value(0)
    axes = positive_axes(node.get("axes") or range(x.ndim), x.ndim)
    sizes, scales = _targets(node, x, axes)
    changed = [
        i for i, a in enumerate(axes) if not (a == x.batch_axis or (sizes[i] == x.shape[a] and scales[i] in (None, 1)))
    ]
    for i, a in enumerate(axes):
        if a == x.batch_axis and scales[i] not in (None, 1):
            x.axis(a)
    if not changed:
        return x
    positions = [x.axis(axes[i]) for i in changed]
    new, factors = [sizes[i] for i in changed], [scales[i] for i in changed]
    fields = _conventions(node)
    simple = _as_upsampling(b, x, positions, new, factors, fields)
    if simple is not None:
        return simple
    lengths = [x.dims[p - 1] for p in positions]
    stated = [f if f is not None else n / m for f, n, m in zip(factors, new, lengths, strict=True)]
    if any(abs(f - n / m) > 1e-9 for f, n, m in zip(stated, new, lengths, strict=True)):
        fields["scales"] = stated
    return b.add(b.make(layers.Interpolate, sizes=new, axes=positions, **fields), x)


def _targets(node: OnnxNode, x: NetValue, axes: list[int]) -> tuple[list[int], list[float | None]]:
    """The new sizes, and the scales where the node states them."""
    if node.op == "Upsample":
        scales = node.get("scales") or node.weight(1, "scales").array.tolist()
    else:
        constant = node.constant(1 if node.version < 11 else 2, "scales")
        scales = None if constant is None or not constant.array.size else constant.array.tolist()
    if scales is not None:
        if len(scales) != len(axes):
            raise NoLayerError(f"{len(scales)} scales for {len(axes)} dimensions")
        shape = [x.shape[a] for a in axes]
        return [0 if isinstance(n, BatchSize) else floor(n * s) for n, s in zip(shape, scales, strict=True)], list(
            scales
        )
    sizes = node.weight(3, "sizes").integers()
    if len(sizes) != len(axes):
        raise NoLayerError(f"{len(sizes)} sizes for {len(axes)} dimensions")
    numbers = [0 if isinstance(n, BatchSize) or a == x.batch_axis else int(n) for n, a in zip(sizes, axes, strict=True)]
    policy = node.get("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return numbers, [None] * len(axes)
    ratios = [n / int(x.shape[a]) for n, a in zip(numbers, axes, strict=True) if a != x.batch_axis]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    new = [0 if a == x.batch_axis else floor(scale * int(x.shape[a]) + 0.5) for a in axes]
    return new, [None if a == x.batch_axis else scale for a in axes]


def _conventions(node: OnnxNode) -> dict[str, object]:
    mode = node.get("mode", "nearest")
    method = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic"}.get(mode)
    coordinates = node.get("coordinate_transformation_mode", "half_pixel")
    if node.version < 11:
        coordinates = "asymmetric"
    if method is None or coordinates == "tf_crop_and_resize":
        raise NoLayerError(f"mode {mode!r} with coordinates {coordinates!r} has no layer")
    fields: dict[str, object] = {"method": method, "coordinates": coordinates}
    if method == "nearest":
        fields["rounding"] = "floor" if node.version < 11 else node.get("nearest_mode", "round_prefer_floor")
    else:
        fields["exclude_outside"] = node.flag("exclude_outside", 0)
        fields["antialias"] = node.flag("antialias", 0)
    if method == "cubic":
        fields["cubic_coefficient"] = node.get("cubic_coeff_a", -0.75)
    return fields


def _as_upsampling(
    b: NetBuilder,
    x: NetValue,
    positions: list[int],
    new: list[int],
    factors: list[float | None],
    fields: dict[str, object],
) -> NetValue | None:
    """Pixels repeated by whole factors, and images resized as Keras does, as those layers."""
    rank = len(x.dims) - 1
    if not x.is_plain or 1 in positions or not 1 <= rank <= 3:
        return None
    lengths = list(x.dims[1:])
    sizes = [new[positions.index(a)] if a in positions else lengths[a - 2] for a in range(2, rank + 2)]
    if any(
        f is not None and abs(f * x.dims[p - 1] - n) > 1e-9 for f, p, n in zip(factors, positions, new, strict=True)
    ):
        return None
    method, coordinates = fields["method"], fields["coordinates"]
    repeats = [max(n // m, 1) for n, m in zip(sizes, lengths, strict=True)]
    nearest = (coordinates, fields.get("rounding")) in (("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"),
                                                        ("half_pixel", "round_prefer_ceil"))  # fmt: skip
    if method == "nearest" and nearest and all(n % m == 0 for n, m in zip(sizes, lengths, strict=True)):
        kind = getattr(layers, f"UpSampling{rank}D")
        return b.add(b.make(kind, size=repeats), x)
    keras = (
        method == "linear" and coordinates == "half_pixel" and not fields["antialias"] and not fields["exclude_outside"]
    )
    if keras and rank == 2:
        return b.add(b.make(layers.Resizing, height=sizes[0], width=sizes[1]), x)
    return None
