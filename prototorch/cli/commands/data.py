"""`prototorch data`: databases of images in Caffe's form (LMDB, LevelDB): made, turned into images again, averaged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from prototorch.base.terminal import escape_line
from prototorch.caffe.data.conversion import ConversionOptions, convert_data
from prototorch.caffe.data.database_summary import summarize_database
from prototorch.caffe.data.databases import open_database
from prototorch.caffe.data.image_mean import channel_means, mean_of_images
from prototorch.caffe.data.mean_file import encode_mean
from prototorch.cli.options import json_option, print_json
from prototorch.data.safe_io import expand_path, printable_path
from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.errors import DataError, UsageError

_MAX_SHOWN = 20  # shapes or labels that `show` prints

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
def convert_command(
    source: str, output: str, root: str | None, resize_height: int, resize_width: int, is_encoded: bool,
    encode_type: str, **options: Any,
) -> int:  # fmt: skip
    """Images to a database, or a database to images.

    SOURCE is a list of images (each line: a name and a label), a folder with a folder of images for each class,
    another data set (fashion-mnist-mini, IDX, npz), or a database. OUT is an LMDB, a LevelDB (--backend, or its name
    ends in .leveldb), or, for a database as SOURCE without --backend, a folder of images with a list.

    Images that cannot be read are reported and left out; then the exit code is 4.
    """
    missing: list[str] = []

    def on_missing(message: str) -> None:
        missing.append(message)
        click.echo(f"left out: {message}", err=True)

    if (resize_height > 0) != (resize_width > 0):
        raise UsageError(f"--resize-height is {resize_height} and --resize-width {resize_width}; give both, or none")
    size = (resize_height, resize_width) if resize_height > 0 else None
    encoding = encode_type or ("auto" if is_encoded else "")
    count, what = convert_data(source, expand_path(output), ConversionOptions(
        root=root, size=size, encode_type=encoding, on_missing=on_missing, **options,
    ))  # fmt: skip
    click.echo(f"{printable_path(output)}: {count:,} images, {what}")
    return DataError.exit_code if missing else 0


@command.command("mean")
@click.argument("database")
@click.option("-o", "--output", metavar="FILE", help="The file of the mean (.binaryproto).")
@json_option
@_FORCE
def mean_command(database: str, output: str | None, as_json: bool, is_forced: bool) -> None:
    """The mean image of a database, as Caffe's compute_image_mean: a file for mean_file, and values for mean_value."""
    if output is not None and os.path.lexists(output) and not is_forced:
        raise UsageError(f"{printable_path(output)}: exists; --force replaces it")
    with open_database(_existing(database)) as records:
        mean, count = mean_of_images(records)
    values = channel_means(mean)
    if output is not None:
        write_bytes(expand_path(output), encode_mean(mean))
    if as_json:
        print_json({"images": count, "shape": list(mean.shape), "mean_value": values})
        return
    click.echo(f"{count:,} images of {' x '.join(map(str, mean.shape))}")
    for channel, value in enumerate(values):
        click.echo(f"mean_value channel [{channel}]: {value:.6g}")


@command.command("show")
@click.argument("database")
@json_option
def show_command(database: str, as_json: bool) -> None:
    """The number of records of a database, the shapes of its images, and its labels."""
    with open_database(_existing(database)) as records:
        found, format_name = summarize_database(records), records.format
    if as_json:
        shapes = [{"shape": list(shape), "records": count} for shape, count in found.shapes.most_common()]
        labels = {str(label): count for label, count in sorted(found.labels.items())}
        print_json({"format": format_name, "records": found.num_records, "encoded": found.num_encoded,
                    "bytes": found.num_bytes, "shapes": shapes, "labels": labels})  # fmt: skip
        return
    click.echo(
        f"{printable_path(database)}: {format_name}, {found.num_records:,} records, {found.num_bytes:,} bytes, "
        f"{found.num_encoded:,} of them image files"
    )
    if found.num_records:
        click.echo(f"keys      {escape_line(found.first_key)} to {escape_line(found.last_key)}")
    for shape, count in found.shapes.most_common(_MAX_SHOWN):
        click.echo(f"{' x '.join(map(str, shape)):>16}  {count:,} images")
    if len(found.shapes) > _MAX_SHOWN:
        click.echo(f"{'':>16}  and {len(found.shapes) - _MAX_SHOWN:,} more shapes")
    for label, count in sorted(found.labels.items())[:_MAX_SHOWN]:
        click.echo(f"{f'label {label}':>16}  {count:,} images")
    if len(found.labels) > _MAX_SHOWN:
        click.echo(f"{'':>16}  and {len(found.labels) - _MAX_SHOWN:,} more labels")


def _existing(database: str) -> Path:
    path = expand_path(database)
    if not os.path.lexists(path):
        raise DataError(f"{printable_path(path)}: there is no such file or folder")
    return path
