"""What `prototorch run` does."""

from __future__ import annotations

import contextlib
import signal
import time
from typing import Any

import click

from prototorch.cli.caffe_files import is_caffe_solver, refuse_caffe_options, train_caffe
from prototorch.cli.json_output import format_json, print_json, to_json_types
from prototorch.cli.model_input import add_device_overrides, open_model, print_data_paths
from prototorch.cli.process_start import PROCESS_START
from prototorch.cli.run_dirs import load_snapshot, open_run_folder
from prototorch.cli.run_report import evaluate_saved
from prototorch.data.sources import find_source
from prototorch.engine.storage.run_folder import RunFolder
from prototorch.errors import UsageError
from prototorch.model.model import Model
from prototorch.schema.block_source import find_span
from prototorch.text.diagnostics import located
from prototorch.train.callback_list import check_output_names
from prototorch.train.callbacks import Callback, Logs
from prototorch.train.fit_state import EpochState
from prototorch.train.log_names import LogNames
from prototorch.train.profiler import EVALUATE, SAVE, START, data_wait_share, format_table
from prototorch.train.progress import format_duration


class _SnapshotCallback(Callback):
    """After each epoch the whole state goes into the run folder, so that ``--resume`` can go on: before the other
    callbacks are called, which may raise errors. What an earlier training left there makes room when a new one begins,
    and not before: all that can be wrong with it has been looked at by then."""

    display = True

    def __init__(self, folder: RunFolder, resume: bool, quiet: bool):
        self.folder, self.resume, self.quiet = folder, resume, quiet
        self.is_prepared = False

    def prepare(self, model: Model) -> None:
        """Report the size of the model, and check once that its snapshots fit on the disk. Raises SnapshotError."""
        if not self.is_prepared:
            self.is_prepared = True
            device = model.trainer.plan_cache.backend.name
            self.note(f"{model.net.name}: {model.count_params():,} parameters on {device}")
            weights = sum(array.nbytes for array in model.weights.values())
            self.folder.prepare(4 * weights)  # the weights with the slots of the hungriest optimiser

    def check_logs(self, names: LogNames) -> None:
        check_output_names(self.model.fit_block.callbacks)

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.prepare(self.model)
        encoding = self.model.table_columns.encoding
        for line in () if encoding is None else encoding.report():
            self.note(f"column {line}")
        trainer = self.model.trainer
        if self.resume:
            self.folder.trim_log(trainer.epoch)
            self.note(_describe_position(self.model, self.folder))
            return
        aside = self.folder.start_run()
        if aside is not None:
            self.note(
                f"note: the training in {self.folder.path} had not come to its end; what it left is in {aside} "
                f"now, and --resume --run-dir {aside} goes on with it"
            )

    def note(self, text: str) -> None:
        """A line on standard error, unless ``quiet`` or the terminal is gone."""
        if not self.quiet:
            with contextlib.suppress(OSError):
                click.echo(text, err=True)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        trainer = self.model.trainer
        spent = {
            "seconds": round(trainer.epoch_seconds["total"], 3),
            "waiting": round(data_wait_share(trainer.epoch_seconds), 4),
        }
        self.folder.save_snapshot(self.model, trainer.step)
        self.folder.append_log({"epoch": epoch + 1, **to_json_types(logs or {}), **spent})

    def on_snapshot_request(self) -> None:
        path = self.folder.save_snapshot(self.model, self.model.trainer.step)
        self.note(f"SIGHUP: saved {path.name}, the training goes on")


def _describe_position(model: Model, folder: RunFolder) -> str:
    """Where a resumed training goes on."""
    trainer, block = model.trainer, model.fit_block
    assert block is not None
    if trainer.epoch >= block.epochs:
        complete = trainer.epoch + (trainer.epoch_state is EpochState.ENDING)
        return f"{folder.path} has {complete} complete epochs, and {block.epochs} are wanted: nothing is trained"
    step = f", after step {trainer.batch}" if trainer.batch else ""
    return f"goes on in {folder.path} with epoch {trainer.epoch + 1} of {block.epochs}{step}"


def run(
    file: str,
    data: str | None,
    overrides: tuple[str, ...],
    epochs: int | None,
    run_dir: str | None,
    resume: bool,
    overwrite: bool,
    weights: str | None,
    allow_download: bool,
    device: str | None,
    threads: int | None,
    profile: bool,
    quiet: bool,
    as_json: bool,
    **caffe: Any,
) -> int:
    """See `prototorch.cli.commands.run`."""
    if is_caffe_solver(file):
        native = {"--data": data, "--set": overrides, "--epochs": epochs, "--resume": resume, "--overwrite": overwrite,
                  "--profile": profile, "--threads": threads}  # fmt: skip
        return train_caffe(
            file, native, run_dir=run_dir, weights=weights, device=device, quiet=quiet, as_json=as_json, **caffe
        )
    refuse_caffe_options(caffe)
    if epochs is not None:
        overrides = (*overrides, f"fit.epochs={epochs}")
    if resume and weights is not None:
        raise UsageError("--resume goes on with the weights of the interrupted training; leave out --weights")
    overrides = add_device_overrides(overrides, threads, device)
    model = open_model(file, overrides, data, False if resume else weights, allow_download)
    if model.fit_block is None or model.fit_block.data is None:
        raise UsageError(f"{file} names no data: add fit {{ data {{ source: ... }} }}, or give --data")
    if model.compile_block is None or not model.compile_block.loss:
        raise UsageError(f"{file} names no loss: add compile {{ loss: ... }}")
    with open_run_folder(model, run_dir, resume, overwrite) as folder:
        if resume:
            model = load_snapshot(folder, model)
        return _train(model, folder, quiet, as_json, resume, profile)


def _train(model: Model, folder: RunFolder, quiet: bool, as_json: bool, resume: bool, profile: bool) -> int:
    start_time = time.perf_counter()
    block = model.fit_block
    assert block is not None
    if not quiet:
        for data in (block.data, block.validation):
            if data is not None:
                with located(find_span(data, "source")):
                    find_source(data.source, model.read_limits)
        print_data_paths(block.data, block.validation)
    snapshots = _SnapshotCallback(folder, resume, quiet)
    if not any(None in node.shape for node in model.net.inputs):  # else the data determine the weights' shapes
        snapshots.prepare(model)
    history = model.fit(
        callbacks=[snapshots, *block.callbacks],
        verbose=0 if quiet else "auto",
        resume=resume,
        run_dir=folder.path,
    )
    signal_number = model.trainer.interrupt_signal
    if signal_number is not None:
        folder.save_snapshot(model, model.trainer.step)
        where = f"in epoch {model.trainer.epoch + 1} of {block.epochs}, after step {model.trainer.batch}"
        name = signal.Signals(signal_number).name
        click.echo(f"prototorch: stopped by {name} {where}; --resume continues", err=True)
        return 128 + signal_number
    with model.trainer.profiler(SAVE):
        model_path = folder.save_result(model, to_json_types(history.history))
    with model.trainer.profiler(EVALUATE):
        report = evaluate_saved(model, model_path, history)
        folder.save_summary(format_json(report.to_json()))
    spent = _profile_seconds(model) if profile else {}
    seconds = time.perf_counter() - start_time
    if as_json:
        prefix = "val_" if report.has_validation else ""
        final = {**report.training, **{f"{prefix}{name}": value for name, value in report.evaluation.items()}}
        profiled = {"profile": spent} if profile else {}
        result = {**report.to_json(), "model": str(model_path), "seconds": seconds, **profiled}
        print_json({**result, "history": history.history, **final})
    else:
        click.echo("\n".join([*report.lines(), f"saved {model_path} after {format_duration(seconds)}"]))
        if profile:
            click.echo(format_table(spent))
    return 0


def _profile_seconds(model: Model) -> dict[str, float]:
    """Where the time of this process went, seconds by purpose."""
    profiler = model.trainer.profiler
    before = profiler.start_time - PROCESS_START
    seconds = profiler.totals()
    return {START: before, **seconds, "total": seconds["total"] + before}
