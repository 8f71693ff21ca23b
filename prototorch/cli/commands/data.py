"""`prototorch data`: databases of images in Caffe's form (LMDB, LevelDB): made, turned into images again, averaged."""

from __future__ import annotations

import click

from prototorch.cli.deferred import deferred_to
from prototorch.cli.options import json_option

_FORCE = click.option("--force", "--overwrite", "is_forced", is_flag=True, help="Replace what exists.")


@click.group()
def command() -> None:
    """Databases of images in Caffe's form: LMDB and LevelDB of Datums.

    \b
    Examples:
      prototorch data convert train.txt --root images/ -o train.lmdb --resize-height 256 --resize-width 256
      prototorch data convert train.lmdb -o images
      prototorch data mean train.lmdb -o mean.binaryproto
      prototorch data show train.lmdb
    """


@command.command("convert")
@click.argument("source")
@click.option("-o", "--output", required=True, metavar="OUT", help="The database, or the folder of images.")
@click.option("--root", default=None, metavar="DIR", help="The folder of the images of a list; as it is before names.")
@click.option("--backend", type=click.Choice(["lmdb", "leveldb"]), help="The format of the database, if not by OUT.")
@click.option("--gray", "is_gray", is_flag=True, help="One channel.")
@click.option("--shuffle", "is_shuffled", is_flag=True, help="In random order.")
@click.option("--seed", default=0, show_default=True, help="Of the random order.")
@click.option("--resize-height", default=0, metavar="N", help="New height; with --resize-width.")
@click.option("--resize-width", default=0, metavar="N", help="New width; with --resize-height.")
@click.option("--encoded", "is_encoded", is_flag=True, help="Store image files, not pixels.")
@click.option("--encode-type", default="", metavar="TYPE", help="Store files of this format (png, jpg).")
@click.option("--check-size", "is_size_checked", is_flag=True, help="All images must have one size.")
@click.option("--split", default="train", show_default=True, help="The part of a data set with several.")
@_FORCE
@deferred_to("prototorch.cli.actions.data", "convert")
def convert_command() -> None:
    """Images to a database, or a database to images.

    SOURCE is a list of images (each line: a name and a label), a folder with a folder of images for each class,
    another data set (fashion-mnist-mini, IDX, npz), or a database. OUT is an LMDB, a LevelDB (--backend, or its name
    ends in .leveldb), or, for a database as SOURCE without --backend, a folder of images with a list.

    Images that cannot be read are reported and left out; then the exit code is 4.
    """


@command.command("mean")
@click.argument("database")
@click.option("-o", "--output", metavar="FILE", help="The file of the mean (.binaryproto).")
@json_option
@_FORCE
@deferred_to("prototorch.cli.actions.data", "mean")
def mean_command() -> None:
    """The mean image of a database, as Caffe's compute_image_mean: a file for mean_file, and values for mean_value."""


@command.command("show")
@click.argument("database")
@json_option
@deferred_to("prototorch.cli.actions.data", "show")
def show_command() -> None:
    """The number of records of a database, the shapes of its images, and its labels."""
