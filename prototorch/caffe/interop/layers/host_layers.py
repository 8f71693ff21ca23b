"""Layers that no plan computes: Python, Filter, HDF5Output; and Parameter and Silence, which compute nothing."""

from __future__ import annotations

from prototorch.caffe.interop.layer_import import CaffeLayerImport, translator
from prototorch.layers import Variable


@translator("Parameter")
def _parameter(site: CaffeLayerImport) -> None:
    """A parameter blob as the top. It is 0 until weights are loaded: the layer has no filler."""
    site.check_counts(0, 1)
    site.add(Variable(shape=site.dims(site.layer["parameter_param"]["shape"])))


@translator("Silence")
def _silence(site: CaffeLayerImport) -> None:
    """Its bottoms are no outputs of the net; their gradient is 0."""
    site.check_counts((1, None), 0)


@translator("Filter")
def _filter(site: CaffeLayerImport) -> None:
    """The samples whose selector, the last bottom, is not 0. How many there are is known when it runs."""
    site.check_counts((2, None), (1, None))
    if site.num_tops != len(site.bottoms) - 1:
        site.fail(
            f"it has {len(site.bottoms)} bottoms and {site.num_tops} tops, but the tops must be one fewer: the "
            "last bottom selects",
            site.layer,
            "top",
        )
    *shapes, selector = site.bottom_shapes
    if not selector or any(size != 1 for size in selector[1:]):
        site.fail(
            f"the selector, the last bottom, must have the shape [samples, 1, ...], not {list(selector)}",
            site.layer,
            "bottom",
        )
    for shape in shapes:
        if shape[:1] != selector[:1]:
            site.fail(
                f"the bottoms must have as many samples as the selector ({selector[0]}), not {list(shape)}",
                site.layer,
                "bottom",
            )
    site.add_inputs("host", list(shapes))


@translator("HDF5Output")
def _hdf5_output(site: CaffeLayerImport) -> None:
    """Writes its two bottoms as "data" and "label" of a file."""
    site.check_counts(2, 0)
    first, second = site.bottom_shapes
    if len(first) > 4 or len(second) > 4:
        site.fail(f"its bottoms have at most 4 axes, not {list(first)} and {list(second)}", site.layer, "bottom")
    if (first or (1,))[0] != (second or (1,))[0]:
        site.fail(
            f"its bottoms must have the same number of samples, not {list(first)} and {list(second)}",
            site.layer,
            "bottom",
        )
    if not site.layer["hdf5_output_param"]["file_name"]:
        site.fail("hdf5_output_param needs the field file_name", site.layer, "hdf5_output_param")
    site.kind = "host"


@translator("Python")
def _python(site: CaffeLayerImport) -> None:
    """A class in Python; its tops' shapes are what its setup and reshape say."""
    param = site.layer["python_param"]
    for name in ("module", "layer"):
        if not param[name]:
            site.fail(f"python_param needs the field {name}", site.layer, "python_param")
    if site.host_shapes is None:
        site.fail(
            f"it runs the class {param['layer']!r} of the Python module {param['module']!r}. A net file is not "
            "trusted to run code: where this one is, allow it, by Net(..., allow_python=True), "
            "pt.caffe.allow_python() or --allow-python",
            site.layer,
            "type",
        )
    site.add_inputs("host", list(site.host_shapes(site.layer, site.bottom_shapes)))
