"""Layers without bottoms whose tops are inputs of the net."""

from __future__ import annotations

from prototorch.caffe.interop.layer_import import CaffeLayerImport, translator


@translator("Input")
def _input(site: CaffeLayerImport) -> None:
    """``input_param { shape { dim: 1 dim: 3 } }``: one shape for each top, or one for all."""
    site.check_counts(0, (1, None))
    param = site.layer["input_param"]
    shapes: list[tuple[int, ...] | None] = [site.dims(shape) for shape in param["shape"]]
    if len(shapes) not in (0, 1, site.num_tops):
        site.fail(f"it has {len(shapes)} shapes for {site.num_tops} tops", param, "shape")
    input_shapes = shapes * site.num_tops if len(shapes) == 1 else shapes or [None] * site.num_tops
    site.add_inputs("graph", input_shapes)


_NUM_TOPS: dict[str, int | tuple[int, int | None]] = {
    "Data": (1, 2), "HDF5Data": (1, None), "ImageData": 2, "MemoryData": 2, "WindowData": 2,
}  # fmt: skip


@translator(*_NUM_TOPS)
def _data(site: CaffeLayerImport) -> None:
    """A data source (`prototorch.caffe.data.open_blob_source`) fills the tops, and knows the shapes that the layer does
    not state."""
    site.check_counts(0, _NUM_TOPS[site.type])
    shapes: list[tuple[int, ...] | None] = [None] * site.num_tops
    if site.type == "MemoryData":
        param = site.layer["memory_data_param"]
        sizes = tuple(param[name] for name in ("batch_size", "channels", "height", "width"))
        if min(sizes) < 1:
            site.fail(f"batch_size, channels, height and width must be 1 or more, not {list(sizes)}", param)
        shapes = [sizes, sizes[:1]]
    if site.type == "WindowData":
        batch, crop = site.layer["window_data_param"]["batch_size"], site.layer["transform_param"]["crop_size"]
        if batch and crop:
            shapes = [(batch, 3, crop, crop), (batch,)]
    site.add_inputs("data", shapes)
