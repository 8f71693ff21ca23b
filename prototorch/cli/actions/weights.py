"""What the commands of `prototorch weights` do."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from prototorch.base.terminal import escape_line
from prototorch.cli.json_output import print_json
from prototorch.cli.messages import echo_error
from prototorch.data.safe_io import printable_path
from prototorch.errors import FileError, PrototorchError, UsageError, did_you_mean
from prototorch.interop.downloads import download, verify_file
from prototorch.interop.downloads.cache import (
    PARTIAL,
    cached_files,
    path_of_address,
    record_path,
    weights_folder,
)
from prototorch.interop.downloads.digests import parse_digest
from prototorch.interop.weight_sets.declaration import WeightSet
from prototorch.interop.weight_sets.registry import DeclaredSet, list_sets
from prototorch.interop.weight_statistics import ArrayStatistics, array_statistics
from prototorch.model.loading.read.read_file import read_weights
from prototorch.model.loading.weight_file import WeightFile
from prototorch.train.builtin_callbacks import History
from prototorch.train.state_fields import StateError


def list_weight_sets(model: str | None = None, as_json: bool = False) -> None:
    """See `prototorch.cli.commands.weights`."""
    sets = sorted(list_sets(), key=lambda one: not one.is_included)
    models = sorted({one.weights.model for one in sets})
    if model is not None and model not in models:
        raise UsageError(f"no weights of a model {model!r} are published.{did_you_mean(model, models)}")
    rows = [_set_row(one) for one in sets if model in (None, one.weights.model)]
    paths_of_sets = {path_of_address(one.weights.address) for one in sets}
    others = [] if model else [(path, record) for path, record in cached_files() if path not in paths_of_sets]
    if as_json:
        files = [{"path": str(path), "address": record.address if record else None} for path, record in others]
        print_json({"folder": str(weights_folder()), "sets": rows, "other_files": files})
        return
    widths = [max(len(str(row[key])) for row in rows) for key in ("name", "model")] if rows else []
    for row in rows:
        accuracy = f"top-1 {row['top1']:.2f} %" if row["top1"] is not None else ""
        state = "comes with prototorch" if row["included"] else "on this machine" if row["cached"] else ""
        alias = f"({', '.join(row['aliases'])})" if row["aliases"] else ""
        click.echo(
            f"{row['name']:{widths[0]}}  {row['model']:{widths[1]}}  {accuracy:14}  {state:21}  {alias}".rstrip()
        )
    for path, _ in others:
        click.echo(f"{escape_line(str(path))}  {path.stat().st_size:,} bytes")


def print_paths(names: tuple[str, ...]) -> None:
    """See `prototorch.cli.commands.weights`."""
    for name in names:
        click.echo(str(_find(name)[0]))
    if not names:
        click.echo(str(weights_folder()))


def fetch(names: tuple[str, ...]) -> None:
    """See `prototorch.cli.commands.weights`."""
    for name in _required(names):
        _, weights = _find(name)
        if weights is not None:
            click.echo(str(download(weights.address, digest=weights.digest, size=_size(weights))))
        elif "://" in name:
            click.echo(str(download(name)))
        else:
            raise UsageError(f"{name!r}: expected the name of a set, or an address")


def verify(names: tuple[str, ...]) -> int:
    """See `prototorch.cli.commands.weights`."""
    sets = {path_of_address(one.weights.address): one.weights for one in list_sets()}
    files = [_find(name)[0] for name in names] if names else [path for path, _ in cached_files()]
    code = 0
    if not files:
        click.echo(f"no files are downloaded yet into {weights_folder()}", err=True)
    for path in files:
        try:
            if not path.is_file():
                raise FileError(f"{printable_path(path)}: is not on this machine")
            weights = sets.get(path)
            if weights is not None and weights.digest is not None and weights.address.startswith("file:"):
                download(weights.address, digest=weights.digest)  # which reads it where it is, and keeps no record
                click.echo(f"{escape_line(str(path))}: {weights.digest.replace(':', ' ')}, as published")
                continue
            expected = parse_digest(weights.digest) if weights is not None else None
            record = verify_file(path, expected=expected, again=True)
            against = "as published" if record.is_published else f"as first downloaded {record.date}"
            click.echo(f"{escape_line(str(path))}: sha256 {record.sha256}, {against}")
        except PrototorchError as error:
            echo_error(error)
            code = error.exit_code
    return code


def remove(names: tuple[str, ...], is_all: bool, forget: bool) -> None:
    """See `prototorch.cli.commands.weights`."""
    files = [path for path, _ in cached_files()] if is_all else [_find(name)[0] for name in _required(names)]
    for path in files:
        if weights_folder() not in path.parents:
            raise UsageError(f"{printable_path(path)}: is not a downloaded file, so it is not removed")
        size = path.stat().st_size if path.is_file() else 0
        partial = path.with_name(path.name + PARTIAL)
        for file in (path, partial, record_path(partial), *([record_path(path)] if forget else [])):
            file.unlink(missing_ok=True)
        click.echo(f"{escape_line(str(path))}: {f'{size:,} bytes removed' if size else 'was not there'}")


def show(file: str, as_json: bool) -> None:
    """See `prototorch.cli.commands.weights`."""
    path = file if os.path.exists(file) else str(_find(file)[0])
    weights = read_weights(path)
    rows = [_array_row(weights, name) for name in weights]
    if as_json:
        print_json(_as_json(weights, rows))
        return
    click.echo(f"{printable_path(path)}: {weights.format}{f', of {weights.system}' if weights.system else ''}")
    names = max((len(name) for name in weights), default=0)
    for row, statistics in rows:
        click.echo(_format_row(row, statistics, min(names, 60)))
    elements = sum(statistics.elements for _, statistics in rows)
    click.echo(f"{len(rows)} arrays, {elements:,} elements")
    if "history" in weights.metadata:
        click.echo(f"trained {_describe_history(weights.metadata['history'])}")
    for name, reason in weights.skipped.items():
        click.echo(f"not a weight: {escape_line(name)}, {reason}")


def _describe_history(text: str) -> str:
    """The epochs of a saved model's history, and the logs of that whose weights it has."""
    try:
        history = History.from_json(json.loads(text))
    except (ValueError, RecursionError, StateError) as error:
        return f"with a history that cannot be read: {escape_line(str(error)):.200}"
    row = history.epoch.index(history.weights_epoch) if history.weights_epoch in history.epoch else -1
    logs = {name: values[row] for name, values in history.history.items() if len(values) == len(history.epoch)}
    numbers = "  ".join(f"{escape_line(name)} {value:.4g}" for name, value in logs.items() if isinstance(value, float))
    return f"{len(history.epoch)} epochs: {numbers}"


def _array_row(file: WeightFile, name: str) -> tuple[dict[str, Any], ArrayStatistics]:
    array = file.arrays[name]
    same = [other for other, one in file.arrays.items() if array.storage is not None and one.storage == array.storage]
    row = {"name": name, "shape": list(array.shape), "dtype": array.dtype}
    if len(same) > 1:
        row["shares_elements_with"] = [other for other in same if other != name]
    return row, array_statistics(file[name])


def _format_row(row: dict[str, Any], statistics: ArrayStatistics, width: int) -> str:
    numbers = {"min": statistics.minimum, "max": statistics.maximum, "mean": statistics.mean, "std": statistics.std}
    cells = "  ".join(f"{label} {'-' if n is None else f'{n:.4g}':>10}" for label, n in numbers.items())
    counts = {"NaN": statistics.nan, "infinite": statistics.infinite}
    notes = [f"{count:,} {what}" for what, count in counts.items() if count]
    if "shares_elements_with" in row:
        notes.append(f"the elements of {', '.join(map(escape_line, row['shares_elements_with'][:3]))}")
    shape = " x ".join(map(str, row["shape"])) or "scalar"
    text = f"{escape_line(row['name']):{width}}  {shape:>18}  {row['dtype']:8}  {cells}  {statistics.sha256[:8]}"
    return f"{text}  {'; '.join(notes)}".rstrip()


def _as_json(file: WeightFile, rows: list[tuple[dict[str, Any], ArrayStatistics]]) -> dict[str, Any]:
    return {
        "path": file.path,
        "format": file.format,
        "system": file.system,
        "metadata": dict(file.metadata),
        "skipped": dict(file.skipped),
        "arrays": [{**row, **asdict(statistics)} for row, statistics in rows],
    }


def _set_row(declared: DeclaredSet) -> dict[str, Any]:
    one = declared.weights
    path = path_of_address(one.address)
    return {
        "name": one.name, "model": one.model, "aliases": list(one.alias), "top1": one.top1, "top5": one.top5,
        "license": one.license, "address": one.address, "digest": one.digest, "path": str(path),
        "cached": path.is_file(), "included": declared.is_included,
    }  # fmt: skip


def _size(one: WeightSet) -> int | None:
    return None if one.mebibytes is None else round(one.mebibytes * 2**20)


def _required(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise UsageError("expected the NAME of a set, an address, or a downloaded file")
    return names


def _find(name: str) -> tuple[Path, WeightSet | None]:
    """The path that a name stands for, and the set whose file it is. Raises UsageError."""
    sets = [one.weights for one in list_sets()]
    for one in sets:
        if name in (one.name, one.address):
            return path_of_address(one.address), one
    if "://" in name:
        return path_of_address(name), None
    files = [path for path, _ in cached_files()]
    matches = [path for path in files if name in (path.name, str(path), os.path.relpath(path, weights_folder()))]
    if len(matches) == 1:
        return matches[0], next((one for one in sets if path_of_address(one.address) == matches[0]), None)
    if matches:
        raise UsageError(
            f"{name!r} is the name of {len(matches)} downloaded files; give the path of one: {matches[0]}, ..."
        )
    known_names = [*(one.name for one in sets), *(path.name for path in files)]
    raise UsageError(f"{name!r} is no file, no weight set and no address.{did_you_mean(name, known_names)}")
