"""What the commands of `prototorch data` do."""

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
from prototorch.cli.json_output import print_json
from prototorch.data.safe_io import expand_path, printable_path
from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.errors import DataError, UsageError

_MAX_SHOWN = 20  # shapes or labels that `show` prints


def convert(
    source: str,
    output: str,
    root: str | None,
    resize_height: int,
    resize_width: int,
    is_encoded: bool,
    encode_type: str,
    **options: Any,
) -> int:
    """See `prototorch.cli.commands.data`."""
    missing: list[str] = []

    def on_missing(message: str) -> None:
        missing.append(message)
        click.echo(f"left out: {message}", err=True)

    if (resize_height > 0) != (resize_width > 0):
        raise UsageError(f"--resize-height is {resize_height} and --resize-width {resize_width}; give both, or none")
    size = (resize_height, resize_width) if resize_height > 0 else None
    encoding = encode_type or ("auto" if is_encoded else "")
    count, what = convert_data(
        source,
        expand_path(output),
        ConversionOptions(
            root=root,
            size=size,
            encode_type=encoding,
            on_missing=on_missing,
            **options,
        ),
    )
    click.echo(f"{printable_path(output)}: {count:,} images, {what}")
    return DataError.exit_code if missing else 0


def mean(database: str, output: str | None, as_json: bool, is_forced: bool) -> None:
    """See `prototorch.cli.commands.data`."""
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


def show(database: str, as_json: bool) -> None:
    """See `prototorch.cli.commands.data`."""
    with open_database(_existing(database)) as records:
        summary, format_name = summarize_database(records), records.format
    if as_json:
        shapes = [{"shape": list(shape), "records": count} for shape, count in summary.shapes.most_common()]
        labels = {str(label): count for label, count in sorted(summary.labels.items())}
        print_json({"format": format_name, "records": summary.num_records, "encoded": summary.num_encoded,
                    "bytes": summary.num_bytes, "shapes": shapes, "labels": labels})  # fmt: skip
        return
    click.echo(
        f"{printable_path(database)}: {format_name}, {summary.num_records:,} records, {summary.num_bytes:,} bytes, "
        f"{summary.num_encoded:,} of them image files"
    )
    if summary.num_records:
        click.echo(f"keys      {escape_line(summary.first_key)} to {escape_line(summary.last_key)}")
    for shape, count in summary.shapes.most_common(_MAX_SHOWN):
        click.echo(f"{' x '.join(map(str, shape)):>16}  {count:,} images")
    if len(summary.shapes) > _MAX_SHOWN:
        click.echo(f"{'':>16}  and {len(summary.shapes) - _MAX_SHOWN:,} more shapes")
    for label, count in sorted(summary.labels.items())[:_MAX_SHOWN]:
        click.echo(f"{f'label {label}':>16}  {count:,} images")
    if len(summary.labels) > _MAX_SHOWN:
        click.echo(f"{'':>16}  and {len(summary.labels) - _MAX_SHOWN:,} more labels")


def _existing(database: str) -> Path:
    path = expand_path(database)
    if not os.path.lexists(path):
        raise DataError(f"{printable_path(path)}: there is no such file or folder")
    return path
