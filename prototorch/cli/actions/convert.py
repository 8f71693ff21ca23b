"""What `prototorch convert` does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import click

from prototorch.cli.json_output import print_json
from prototorch.cli.messages import with_shell_options
from prototorch.errors import UsageError, WeightsError
from prototorch.interop.conversion import convert
from prototorch.interop.conversion.sources import WeightOptions


def run(
    source: str,
    output: str | None,
    to: str | None,
    model: str | None,
    weights: str | None,
    overrides: tuple[str, ...],
    weights_to: str | None,
    rules: str | None,
    write_rules: str | None,
    by_order: bool,
    by_name: bool,
    skip_mismatch: bool,
    except_: tuple[str, ...],
    system: str | None,
    data_format: str | None,
    shapes: tuple[str, ...],
    fixed: tuple[str, ...],
    batch_axis: int | None,
    allow_download: bool,
    options: tuple[str, ...],
    force: bool,
    as_json: bool,
) -> None:
    """See `prototorch.cli.commands.convert`."""
    matching = WeightOptions(
        system=system,
        by_order=by_order,
        by_name=by_name,
        skip_mismatch=skip_mismatch,
        except_=except_,
        allow_download=allow_download or None,
        data_format=data_format,
    )
    importing = _import_options(shapes, fixed, batch_axis, weights)
    try:
        result = convert(
            source,
            output,
            to=to,
            model=model,
            overrides=overrides,
            rules=rules,
            write_rules=write_rules,
            weights_to=weights_to,
            matching=matching,
            import_options=importing,
            force=force,
            **_parse(options),
        )
    except WeightsError as error:
        raise WeightsError(with_shell_options(str(error))) from None
    if as_json:
        print_json({"files": list(result.paths), "notes": list(result.notes)})
        return
    for note in result.notes:
        click.echo(with_shell_options(note), err=True)
    for path in result.paths:
        click.echo(f"{path}  {os.path.getsize(path):,} bytes")


def _import_options(
    shapes: tuple[str, ...], fixed: tuple[str, ...], batch_axis: int | None, weights: str | None
) -> dict[str, Any]:
    """What the importer of a whole model gets; what is not given is left out."""
    options = {
        "input_shapes": {name: [int(n) for n in numbers] for name, numbers in _numbers("--input-shape", shapes)},
        "fixed_inputs": {
            name: numbers[0] if len(numbers) == 1 else numbers for name, numbers in _numbers("--fixed-input", fixed)
        },
        "batch_axis": batch_axis,
        "weights": weights,
    }
    return {name: value for name, value in options.items() if value not in (None, {})}


def _numbers(flag: str, options: tuple[str, ...]) -> Iterator[tuple[str, list[float]]]:
    """The numbers of ``NAME=N,N`` by name."""
    for option in options:
        name, equals, text = option.rpartition("=")
        try:
            numbers = [float(n) if flag == "--fixed-input" else int(n) for n in text.split(",")]
        except ValueError:
            numbers = []
        if not equals or not name or not numbers:
            raise UsageError(f"{flag} {option!r}: expected NAME=NUMBER,NUMBER")
        yield name, numbers


def _parse(options: tuple[str, ...]) -> dict[str, Any]:
    """``name=value`` as keyword arguments: true, false, integers, else text."""
    result: dict[str, Any] = {}
    for option in options:
        name, equals, text = option.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--option {option!r}: expected NAME=VALUE")
        value: Any = {"true": True, "false": False}.get(text.lower(), text)
        result[name] = int(text) if text.lstrip("-").isdecimal() else value
    return result
