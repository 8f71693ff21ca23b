"""`prototorch run`: train what a model text says."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import click

from prototorch.cli.options import (
    add_device_overrides,
    data_option,
    device_option,
    json_option,
    model_argument,
    open_model,
    print_data_paths,
    print_json,
    quiet_option,
    set_option,
    threads_option,
    to_plain_types,
)
from prototorch.cli.process_start import PROCESS_START
from prototorch.errors import UsageError
from prototorch.load import load_saved
from prototorch.model import Model
from prototorch.schema import Block
from prototorch.storage.run_folder import RunFolder
from prototorch.train.callbacks import Callback, Logs
from prototorch.train.output_paths import default_run_dir
from prototorch.train.profiler import SAVE, START, data_wait_share, format_table
from prototorch.train.progress import format_duration, format_logs


class _SnapshotCallback(Callback):
    """After each epoch the whole state goes into the run folder, so that ``--resume`` can go on. What an earlier
    training left there makes room when a new one begins, and not before: all that can be wrong with it has been looked
    at by then."""

    display = True

    def __init__(self, folder: RunFolder, resume: bool, quiet: bool):
        self.folder, self.resume, self.quiet = folder, resume, quiet

    def on_train_begin(self, logs: Logs | None = None) -> None:
        aside = None if self.resume else self.folder.start_run()
        if aside is not None and not self.quiet:
            click.echo(f"note: the training in {self.folder.path} had not come to its end; what it left is in {aside} "
                       f"now, and --resume --run-dir {aside} goes on with it", err=True)  # fmt: skip

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        trainer = self.model.trainer
        spent = {
            "seconds": round(trainer.epoch_seconds["total"], 3),
            "waiting": round(data_wait_share(trainer.epoch_seconds), 4),
        }
        self.folder.append_log({"epoch": epoch + 1, **to_plain_types(logs or {}), **spent})
        trainer.defer(lambda: self.folder.save_snapshot(self.model, trainer.step))


@click.command()
@model_argument
@data_option
@set_option
@click.option("--epochs", type=click.IntRange(min=1), help="As --set fit.epochs=N.")
@click.option("--run-dir", type=click.Path(file_okay=False), help="Where results go. Default: runs/NAME.")
@click.option("--resume", is_flag=True, help="Go on with an interrupted training, bit for bit.")
@device_option
@threads_option
@click.option("--profile", is_flag=True, help="Show where the time went: data, steps, validation, ...")
@quiet_option
@json_option
def command(file: str, data: str | None, overrides: tuple[str, ...], epochs: int | None, run_dir: str | None,
            resume: bool, device: str | None, threads: int | None, profile: bool, quiet: bool,
            as_json: bool) -> int:  # fmt: skip
    """Train the model in FILE on the data it names, evaluate it, and keep the result.

    FILE is a model text, or the name of a shipped model. The run folder gets model.h5 (the trained model),
    history.json, log.jsonl (a line an epoch, with its seconds and the share of them that was spent waiting for data)
    and a snapshot of the training's state after each epoch.

    \b
    Examples:
      prototorch run alexnet
      prototorch run models/lenet.proto --data fashion-mnist --set fit.epochs=5
      prototorch run my.proto --resume
      prototorch run my.proto --epochs 1 --profile
    """
    if epochs is not None:
        overrides = (*overrides, f"fit.epochs={epochs}")
    model = open_model(file, add_device_overrides(overrides, threads, device), data)
    if model.fit_block is None or model.fit_block.data is None:
        raise UsageError(f"{file} names no data: add fit {{ data {{ source: ... }} }}, or give --data")
    if model.compile_block is None or not model.compile_block.loss:
        raise UsageError(f"{file} names no loss: add compile {{ loss: ... }}")
    with RunFolder(Path(run_dir) if run_dir else default_run_dir(model.net.name)) as folder:
        if resume:
            model = _load_snapshot(folder, model)
        return _train(model, folder, quiet, as_json, resume, profile)


def _load_snapshot(folder: RunFolder, fresh: Model) -> Model:
    newest = folder.newest_snapshot()
    if newest is None:
        raise UsageError(f"{folder.path} holds no snapshot to go on from; run without --resume first")
    model = load_saved(newest)
    model.read_limits = fresh.read_limits  # its data are those of the model that was given: this is checked below
    saved_fit, new_fit = model.fit_block, fresh.fit_block
    assert saved_fit is not None
    assert new_fit is not None
    model.fit_block = saved_fit.replace(epochs=new_fit.epochs)
    if new_fit.data is not None and saved_fit.data is not None:  # names that were found when training began
        inferred = {
            name: getattr(saved_fit.data, name)
            for name in ("classes", "features", "label")
            if not getattr(new_fit.data, name) or not isinstance(getattr(new_fit.data, name)[0], str)
        }
        new_fit = new_fit.replace(data=new_fit.data.replace(**inferred))
    changed = [name for name, same in (("net", model.net == fresh.net),
                                       (f"compile block{_changed_fields(model.compile_block, fresh.compile_block)}",
                                        model.compile_block == fresh.compile_block),
                                       (f"fit block{_changed_fields(model.fit_block, new_fit)}",
                                        model.fit_block == new_fit)) if not same]  # fmt: skip
    if changed:
        raise UsageError(
            f"{newest} cannot go on exactly: another {' and another '.join(changed)} than it was trained with; take "
            "the changes (in the text, --set or --data) back, or run without --resume"
        )
    return model


def _changed_fields(old: Block | None, new: Block | None) -> str:
    """Which fields of two blocks differ, by name."""
    if old is None or new is None:
        return ""
    new_values = new.field_values()
    return f" ({', '.join(name for name, value in old.field_values().items() if value != new_values[name])})"


def _train(model: Model, folder: RunFolder, quiet: bool, as_json: bool, resume: bool, profile: bool) -> int:
    start_time = time.perf_counter()
    block = model.fit_block
    assert block is not None
    if not quiet:
        device = model.trainer.plan_cache.backend.name
        click.echo(f"{model.net.name}: {model.count_params():,} parameters on {device}", err=True)
        print_data_paths(block.data, block.validation)
    weights = sum(a.nbytes for a in model.weights.values())
    folder.prepare(4 * weights)  # the weights with the slots of the hungriest optimiser
    history = model.fit(
        callbacks=[*block.callbacks, _SnapshotCallback(folder, resume, quiet)],
        verbose=0 if quiet else "auto",
        resume=resume,
        run_dir=folder.path,
    )
    signal_number = model.trainer.interrupt_signal
    if signal_number is not None:
        folder.save_snapshot(model, model.trainer.step)
        click.echo(f"prototorch: stopped by {signal.Signals(signal_number).name}; --resume continues", err=True)
        return 128 + signal_number
    with model.trainer.profiler(SAVE):
        model_path = folder.save_result(model, to_plain_types(history.history))
    final = {k: v[-1] for k, v in history.history.items()}
    spent = _profile_seconds(model) if profile else {}
    if as_json:
        seconds = {"seconds": time.perf_counter() - start_time, **({"profile": spent} if profile else {})}
        skipped = model.trainer.skipped_samples
        print_json({"model": str(model_path), **seconds, "skipped": skipped, "history": history.history, **final})
    else:
        click.echo(
            f"{format_logs(final)}\nsaved {model_path} after {format_duration(time.perf_counter() - start_time)}"
        )
        if profile:
            click.echo(format_table(spent))
    return 0


def _profile_seconds(model: Model) -> dict[str, float]:
    """Where the time of this process went, seconds by purpose."""
    profiler = model.trainer.profiler
    before = profiler.start_time - PROCESS_START
    seconds = profiler.totals()
    return {START: before, **seconds, "total": seconds["total"] + before}
