"""DummyData: tops that fillers draw."""

from __future__ import annotations

from prototorch.caffe.interop.layer_import import CaffeLayerImport, translator
from prototorch.caffe.interop.layers.fillers import filler_initializer
from prototorch.caffe.text.message import Message

_LEGACY_SIZES = ("num", "channels", "height", "width")


@translator("DummyData")
def _dummy_data(site: CaffeLayerImport) -> None:
    """Tops that fillers draw: constant ones once, others for each forward pass."""
    site.check_counts(0, (1, None))
    param, count = site.layer["dummy_data_param"], site.num_tops
    fillers = param["data_filler"] or [Message("FillerParameter")]
    if len(fillers) not in (1, count):
        site.fail(
            f"it has {len(fillers)} data_filler messages; expected one, or one for each of its {count} tops",
            param,
            "data_filler",
        )
    shapes = _dummy_shapes(site, param, count)
    fillers = fillers * count if len(fillers) == 1 else fillers
    site.fillers = tuple(filler_initializer(site, f, s) for f, s in zip(fillers, shapes, strict=True))
    site.add_inputs("data", list(shapes))


def _dummy_shapes(site: CaffeLayerImport, param: Message, count: int) -> list[tuple[int, ...]]:
    legacy = [name for name in _LEGACY_SIZES if param.has(name)]
    if legacy and param.has("shape"):
        site.fail(f"it has shape and {legacy[0]}; expected one of the two forms", param, "shape")
    for name in _LEGACY_SIZES if legacy else ("shape",):
        if len(param[name]) not in (1, count):
            site.fail(
                f"it has {len(param[name])} {name} fields; expected one, or one for each of its {count} tops",
                param,
                name,
            )
    if not legacy:
        return [site.dims((param["shape"] * count)[i]) for i in range(count)]
    return [tuple((param[name] * count)[i] for name in _LEGACY_SIZES) for i in range(count)]
