"""Pooling, local response normalization and Dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch import layers
from prototorch.caffe.interop.export.layer_export import CaffeLayerExport, exports, make_message
from prototorch.caffe.interop.export.products import symmetric_pads
from prototorch.layers.windows import resolve_padding


def _sizes(name: str, values: tuple[int, ...], default: int | None = None) -> dict[str, Any]:
    """Sizes of two dimensions as fields of Caffe, which has one name for equal ones."""
    plain = {"kernel": "kernel_size"}.get(name, name)
    if len(set(values)) == 1:
        return {} if values[0] == default else {plain: values[0]}
    return {f"{name}_h": values[0], f"{name}_w": values[1]}


def check_last_windows(
    site: CaffeLayerExport, size: Sequence[int], kernel: Sequence[int], strides: Sequence[int]
) -> None:
    """Refuse windows without padding, rounded up, of which Caffe would have one more, wholly outside of the image."""
    for n, k, s in zip(size, kernel, strides, strict=True):
        if -(-(n - k) // s) * s >= n:
            site.fail(
                f"with stride {s} and window {k} Caffe has one more window of the {n} elements, outside of them;"
                " ceil_mode: false"
            )


@exports(layers.MaxPooling2D, layers.AveragePooling2D)
def _pooling(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    is_max = isinstance(layer, layers.MaxPooling2D)
    size, kernel, strides = site.input_shapes[0][2:], layer.pool_size, layer.strides or layer.pool_size
    pads = symmetric_pads(site, resolve_padding(layer.padding, size, kernel, strides, (1, 1)))
    spans = [n + 2 * p - k for n, p, k in zip(size, pads, kernel, strict=True)]
    is_exact = all(span % stride == 0 for span, stride in zip(spans, strides, strict=True))
    if not is_max and any(pads) and not (getattr(layer, "count_include_pad", False) and layer.padding != "same"):
        site.fail("the mean leaves its padding out; Caffe counts it: count_include_pad: true")
    if any(pad >= k for pad, k in zip(pads, kernel, strict=True)):
        site.fail(f"its padding {pads} is not smaller than its window {list(kernel)}, as Caffe wants it")
    if layer.ceil_mode and not any(pads):
        check_last_windows(site, size, kernel, strides)
    fields = {**_sizes("kernel", kernel), **_sizes("stride", strides, 1), **_sizes("pad", tuple(pads), 0)}
    param = make_message(
        "PoolingParameter",
        pool="MAX" if is_max else "AVE",
        round_mode=None if layer.ceil_mode or is_exact else "FLOOR",
        **fields,
    )
    site.add("Pooling", pooling_param=param, num_tops=1 + (is_max and layer.return_indices))


@exports(layers.GlobalMaxPooling2D, layers.GlobalAveragePooling2D)
def _global_pooling(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    pool = "MAX" if isinstance(layer, layers.GlobalMaxPooling2D) else "AVE"
    param = make_message("PoolingParameter", pool=pool, global_pooling=True)
    site.add("Pooling", "" if layer.keepdims or _only_dense(site) else "pool", pooling_param=param)
    if not layer.keepdims and not _only_dense(site):
        site.add("Flatten")


def _only_dense(site: CaffeLayerExport) -> bool:
    """Whether only dense layers read the output; in Caffe they flatten what they read."""
    return bool(site.readers) and all(isinstance(reader, layers.Dense) for reader in site.readers)


@exports(layers.Flatten)
def _flatten(site: CaffeLayerExport) -> None:
    if _only_dense(site) or len(site.input_shapes[0]) == 2:
        site.pass_through()
    else:
        site.add("Flatten")


@exports(layers.LRN)
def _lrn(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    defaults = {"local_size": (layer.size, 5), "alpha": (layer.alpha, 1), "beta": (layer.beta, 0.75), "k": (layer.k, 1)}
    if len(site.input_shapes[0]) != 4:
        site.fail(f"its input has {len(site.input_shapes[0])} axes; Caffe's LRN has 4")
    fields = {name: value for name, (value, default) in defaults.items() if value != default}
    if layer.region == "within_channel":
        if layer.k != 1:
            site.fail(f"k is {layer.k:g}; within a channel Caffe adds 1")
        fields["norm_region"] = "WITHIN_CHANNEL"
    site.add("LRN", lrn_param=make_message("LRNParameter", **fields))


@exports(layers.Dropout)
def _dropout(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    if layer.noise_shape is not None:
        site.fail("noise_shape: Caffe drops each element by itself")
    param = make_message("DropoutParameter", dropout_ratio=layer.rate if layer.rate != 0.5 else None)
    site.add("Dropout", in_place=True, dropout_param=param)
