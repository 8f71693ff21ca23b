"""The preprocessing that a net of Caffe needs for images, by ``--mean``, ``--scale`` and ``--labels``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from prototorch.caffe.interop.image_inputs import ImageInput, channels_of, read_class_names, read_mean
from prototorch.caffe.interop.net_text import read_prediction_net
from prototorch.cli.caffe_files import is_caffe_net
from prototorch.data.sources import is_table
from prototorch.errors import UsageError
from prototorch.layers.base import Layer
from prototorch.model.load import find_model_file
from prototorch.model.model import Model
from prototorch.schema.patterns import matches

__all__ = ["find_blobs", "prepare_images"]


def prepare_images(
    model: Model, file: str, what: Sequence[str], mean: str | None, scale: float | None, labels: str | None
) -> None:
    """Give a model the preprocessing that a net of Caffe needs for images, and note what was assumed.

    A model that has its own ``preprocess`` (of a weight set) keeps it, and arrays go to a net as they are. file, what:
    as the command got them. Raises UsageError for a mean or a scale beside a preprocessing or for arrays, and for
    inputs that are no images.
    """
    net, is_given = model.net, mean is not None or scale is not None
    if is_given and net.preprocess:
        raise UsageError(f"{file}: prepares its images itself (preprocess); --mean and --scale are for nets without")
    has_arrays = any(Path(name).is_file() and is_table(Path(name)) for name in what)
    if is_given and has_arrays:
        raise UsageError(f"{what[0]}: --mean and --scale are for images; arrays are given to the net as they are")
    shape = net.inputs[0].shape if len(net.inputs) == 1 else ()
    preprocess: Sequence[Layer] = net.preprocess
    assumes = not net.preprocess and not has_arrays and _is_image(shape) and is_caffe_net(file)
    if is_given or assumes:
        channels = channels_of(shape)
        image = ImageInput(read_mean(mean) if mean is not None else (), 1.0 if scale is None else scale)
        preprocess = image.layers(channels)
        size = "" if None in shape else f"stretched to {shape[1]}x{shape[2]}, "
        click.echo(f"note: images are {size}{image.describe(channels)}", err=True)
    if preprocess != net.preprocess or labels is not None:
        model.set_preprocess(preprocess, None if labels is None else read_class_names(labels))


def find_blobs(file: str, names: Sequence[str]) -> dict[str, str]:
    """The values of a net of Caffe for names or patterns of its blobs (``--output``), by blob; none for other models.

    A blob that layers change in place has the value that it holds at the end, as in Caffe. Names that are no blobs are
    left out.
    """
    if not names or not is_caffe_net(file):
        return {}
    blobs = read_prediction_net(find_model_file(file)).blobs
    return {blob: value for blob, value in blobs.items() if any(matches(name, blob) for name in names)}


def _is_image(shape: tuple[int | None, ...]) -> bool:
    return len(shape) == 3 and shape[0] in (1, 3)
