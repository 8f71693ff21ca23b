"""The run folder of `prototorch run`: which one a new run or a resumed one takes, and the snapshot to go on from.

A run that has ended, and one of another model, is never overwritten without ``--overwrite``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click

from prototorch.engine.storage.run_folder import RunFolder
from prototorch.errors import PrototorchError, UsageError
from prototorch.graph.channel_axes import with_stated_channels
from prototorch.graph.net import Net
from prototorch.graph.text_upgrade import TEXT_FORMAT, current_text
from prototorch.model.load import load_saved, model_from_text
from prototorch.model.model import Model
from prototorch.schema import Block
from prototorch.train.output_paths import default_run_dir

__all__ = ["load_snapshot", "open_run_folder"]

_UPGRADE_HINT = (
    ". It was written by a version in which the channels of 1D layers, normalizations and Concatenate were axis 1: "
    "`prototorch fmt --upgrade FILE` writes into the text what it meant then, and `prototorch show` of the snapshot "
    "prints its net"
)


@contextmanager
def open_run_folder(model: Model, run_dir: str | None, resume: bool, overwrite: bool) -> Iterator[RunFolder]:
    """The locked folder of a run: ``run_dir``, else ``runs/NAME``, else the first free one of ``runs/NAME-2``, ...

    With ``resume`` it is the last one that was written by a training of this model. Raises UsageError for a ``run_dir``
    that holds a run that has ended, or one of another model, unless ``overwrite``.
    """
    if resume:
        if overwrite:
            raise UsageError("--resume goes on with a run, and --overwrite removes it: expected one of them")
        with RunFolder(Path(run_dir) if run_dir else _find_resumable(model)) as folder:
            yield folder
        return
    base = Path(run_dir) if run_dir else default_run_dir(model.net.name)
    for path in [base] if run_dir or overwrite else _candidates(model.net.name):
        with RunFolder(path) as folder:
            occupant = None if overwrite else _occupant(folder, model)
            if occupant is None:
                if path != base:
                    click.echo(f"note: {base} holds {_occupant_of(base, model)}; this run goes to {path}", err=True)
                yield folder
                return
            if run_dir:
                raise UsageError(f"{path} holds {occupant}: give another --run-dir, or --overwrite to replace it")


def _candidates(name: str) -> Iterator[Path]:
    """``runs/NAME``, ``runs/NAME-2``, ... Raises UsageError for one that leads elsewhere."""
    yield default_run_dir(name)
    for number in itertools.count(2):
        yield default_run_dir(f"{name}-{number}")


def _occupant_of(path: Path, model: Model) -> str | None:
    return _occupant(RunFolder(path), model)


def _occupant(folder: RunFolder, model: Model) -> str | None:
    """What a folder holds that a new run of this model must not replace; None if it may be used."""
    if not folder.model_path.exists() and not folder.snapshots.paths():
        return None
    differences = _differences_of(folder, model)
    if folder.is_finished:
        return "a run that has ended" + (f", of another {' and another '.join(differences)}" if differences else "")
    if differences:
        return f"a run that has not ended, of another {' and another '.join(differences)}"
    return None


def _differences_of(folder: RunFolder, model: Model) -> list[str]:
    """What differs between the model of a run and this one."""
    text_and_version = folder.model_text()
    try:
        if text_and_version is None:
            return ["model, whose files are damaged"]
        return _differences(model_from_text(current_text(*text_and_version)), model)
    except PrototorchError:
        return ["model, whose text cannot be read"]


def _find_resumable(model: Model) -> Path:
    """The run of this model that was written last, among ``runs/NAME``, ``runs/NAME-2``, ...; else ``runs/NAME``."""
    base = default_run_dir(model.net.name)
    newest: tuple[int, Path] | None = None
    for path in itertools.takewhile(Path.exists, _candidates(model.net.name)):
        snapshots = RunFolder(path).snapshots.paths()
        if snapshots and not _differences_of(RunFolder(path), model):
            written_at = max(snapshot.stat().st_mtime_ns for snapshot in snapshots)
            newest = max(newest or (0, path), (written_at, path))
    return base if newest is None else newest[1]


def load_snapshot(folder: RunFolder, fresh: Model) -> Model:
    """The model of the newest snapshot that can be read; those that cannot are reported on standard error.

    Raises UsageError if there is none, or if ``fresh`` is not the model that was trained.
    """
    snapshot = folder.load_newest(load_saved)
    if snapshot is None:
        raise UsageError(f"{folder.path} holds no snapshot to go on from; run without --resume first")
    for error in snapshot.errors:
        click.echo(f"warning: {error}; goes on from the older {snapshot.path.name}", err=True)
    model = snapshot.contents
    model.read_limits = fresh.read_limits  # its data are those of the model that was given: this is checked below
    differences = _differences(model, fresh)
    if differences:
        text_and_version = folder.model_text()
        is_old = "net" in differences and text_and_version is not None and text_and_version[1] < TEXT_FORMAT
        raise UsageError(
            f"{snapshot.path} cannot go on exactly: another {' and another '.join(differences)} than it was trained "
            "with; take the changes (in the text, --set or --data) back, or run without --resume"
            f"{_UPGRADE_HINT if is_old else ''}"
        )
    assert model.fit_block is not None
    assert fresh.fit_block is not None
    model.fit_block = model.fit_block.replace(epochs=fresh.fit_block.epochs)
    return model


def _differences(saved: Model, fresh: Model) -> list[str]:
    """Which of net, compile block and fit block differ, apart from the epochs and from the names of classes and columns
    that were found in the data."""
    saved_fit, new_fit = saved.fit_block, fresh.fit_block
    if saved_fit is not None and new_fit is not None:
        saved_fit = saved_fit.replace(epochs=new_fit.epochs)
        if new_fit.data is not None and saved_fit.data is not None:
            inferred = {
                name: getattr(saved_fit.data, name)
                for name in ("classes", "features", "label")
                if not getattr(new_fit.data, name) or not isinstance(getattr(new_fit.data, name)[0], str)
            }
            new_fit = new_fit.replace(data=new_fit.data.replace(**inferred))
    blocks = (("compile", saved.compile_block, fresh.compile_block), ("fit", saved_fit, new_fit))
    return [
        *(["net"] if not _means_same(saved.net, _with_set_of(saved, fresh.net)) else []),
        *(f"{name} block{_changed_fields(old, new)}" for name, old, new in blocks if old != new),
    ]


def _means_same(a: Net, b: Net) -> bool:
    return a == b or with_stated_channels(a) == with_stated_channels(b)


def _with_set_of(saved: Model, net: Net) -> Net:
    """A net with what a run took over from a weight set when it began, which a resumed one does not open again."""
    if all(b is None or b.preprocess != "set" for b in (saved.weights_block, *saved.nested_weights)):
        return net
    return replace(net, preprocess=saved.net.preprocess, class_names=saved.net.class_names)


def _changed_fields(old: Block | None, new: Block | None) -> str:
    """Which fields of two blocks differ, by name."""
    if old is None or new is None:
        return ""
    new_values = new.field_values()
    return f" ({', '.join(name for name, value in old.field_values().items() if value != new_values[name])})"
