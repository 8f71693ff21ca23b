"""`prototorch predict`: a saved model on images, arrays or tables; the outputs of its layers as features."""

from __future__ import annotations

import click

from prototorch.cli.deferred import deferred_command
from prototorch.cli.image_options import image_options
from prototorch.cli.options import (
    device_option,
    json_option,
    model_argument,
    threads_option,
    weights_option,
)


@deferred_command("prototorch.cli.actions.predict")
@model_argument
@click.argument("what", nargs=-1, required=True, metavar="WHAT...")
@click.option("--top", type=click.IntRange(min=1), default=5, show_default=True, help="How many classes are shown.")
@click.option(
    "--output",
    "outputs",
    multiple=True,
    metavar="LAYER",
    help="Give the outputs of these layers in the place of the model's: a name, a pattern, a block. May be repeated.",
)
@click.option(
    "-o",
    "--to",
    "to",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the outputs to a .h5, .npz or .npy file, or classes and probabilities to a .csv or .jsonl file.",
)
@click.option("--batch-size", type=click.IntRange(min=1), default=32, show_default=True, help="Samples in one step.")
@weights_option
@image_options
@device_option
@threads_option
@json_option
def command() -> None:
    """Use the model FILE on WHAT: image files, a folder of images, an array file (.npy, .npz, .h5), or a table
    (.csv, .jsonl, .parquet, .feather).

    The model's own preprocess layers prepare the images; nothing else is needed. A file of --to is a data source of
    named arrays: the outputs and, where WHAT has them (a folder per class, an array or column of labels), the labels;
    a .csv or .jsonl file has a row for each sample, in order: its name, the class, the probabilities, or the values.

    \b
    Examples:
      prototorch predict runs/alexnet/model.h5 cat.png dog.jpg
      prototorch predict resnet101 --weights imagenet cat.jpg
      prototorch predict runs/lenet/model.h5 digits.npy --to scores.npy
      prototorch predict runs/people/model.h5 new.csv -o predictions.csv
      prototorch predict runs/alexnet/model.h5 photos --output pool5 --to features.h5
      prototorch predict deploy.prototxt --weights net.caffemodel --mean 104,117,123 --labels synset_words.txt cat.jpg
    """
