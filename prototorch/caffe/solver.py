"""Caffe's solvers, with pycaffe's names."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from prototorch.caffe.data.file_search import FileSearch
from prototorch.caffe.interop.solver_fields import LearningRate, check_solver, translate_optimizer
from prototorch.caffe.interop.solver_state import read_solver_state
from prototorch.caffe.net import Net
from prototorch.caffe.settings import log, new_seed
from prototorch.caffe.snapshot_prefix import snapshot_prefix
from prototorch.caffe.solver_debug import debug_lines
from prototorch.caffe.solver_iteration import SolverIteration
from prototorch.caffe.solver_log import SmoothedLoss, SolverLog
from prototorch.caffe.solver_nets import NetSource, find_test_nets, find_train_net
from prototorch.caffe.solver_param import SolverParam
from prototorch.caffe.solver_position import SolverPosition, position_path, read_position
from prototorch.caffe.solver_snapshot import check_space, load_weights, restore_snapshot, snapshot_names, write_snapshot
from prototorch.caffe.solver_test import TestResult, run_test
from prototorch.caffe.text.message import Message
from prototorch.caffe.text.reader import read_solver_file
from prototorch.data.read_limits import ReadLimits
from prototorch.errors import ModelFileError, warn_user
from prototorch.train.state_check import describe_states, non_finite_states

__all__ = [
    "AdaDeltaSolver", "AdaGradSolver", "AdamSolver", "NesterovSolver", "RMSPropSolver", "SGDSolver", "Solver",
    "get_solver",
]  # fmt: skip

#: what `Solver.action` may return
NONE, SNAPSHOT, STOP = "none", "snapshot", "stop"


class Solver:
    """Trains the net of a solver file as ``caffe train`` does, and tests it on others.

    Args:
        solver_file: the path of a solver's text, or a SolverParameter. Files that it names are looked for in the
            working directory, then beside it.
        precision: "auto" (float32) or "float64".
        level, stages: of the state of the train net.
        weights: files of weights to begin with instead of those that the solver names, commas between them; "" for
            none.
        prefix: in front of the names of snapshots, instead of ``snapshot_prefix``; may lead anywhere.
        run_dir: the folder that ``snapshot_prefix`` is relative to; it does not lead out of it.
        write: takes the lines of the log; default: pycaffe's log (`init_log` shows it).
        limits: the folders in which the files that texts name must lie; None: no limit.
        allow_python: whether Python layers may run; None: what `caffe.allow_python` has set.

    Attributes:
        net: the net that is trained. test_nets: those that it is tested with; they share its parameters.
        iter: the number of iterations that are done.
        action: asked after each iteration, and within tests; returns "none", "snapshot" or "stop".
        is_stopped: whether `action` has said "stop" in the last `solve` or `step`.
        loss: of the last iteration, the mean over ``average_loss`` of them. snapshots: the paths of those that were
            written. test_results: for each test net the outputs of its last test.

    Raises TextError for mistakes of the texts, DataError, ModelFileError and UsageError for what they name.
    """

    #: the solver type of a class that stands for one; None: what the file says
    solver_type: ClassVar[str | None] = None

    def __init__(
        self,
        solver_file: str | os.PathLike[str] | Message,
        *,
        precision: str = "auto",
        level: int = 0,
        stages: Sequence[str] = (),
        weights: str | None = None,
        prefix: str | None = None,
        run_dir: str | os.PathLike[str] | None = None,
        write: Callable[[str], None] | None = None,
        limits: ReadLimits | None = None,
        allow_python: bool | None = None,
    ):
        is_text = not isinstance(solver_file, Message)
        path = Path(os.fspath(solver_file)) if is_text else None  # type: ignore[arg-type]
        message = read_solver_file(solver_file) if is_text else solver_file.copy()  # type: ignore[arg-type, union-attr]
        if self.solver_type is not None:
            message["type"] = self.solver_type
        translate_optimizer(message)  # mistakes are reported before anything is read
        self._message, self._precision = message, precision
        self._allow_python, self._run_dir = allow_python, run_dir
        self.search = FileSearch(() if path is None else (os.fspath(path.parent),), limits)
        self.log = SolverLog(log if write is None else write)
        self._prefix = snapshot_prefix(message, path, prefix, run_dir)
        self._seed = message["random_seed"] if message["random_seed"] >= 0 else new_seed()
        self.iter = 0
        self.is_stopped = False
        self.loss = float("nan")
        self.snapshots: list[tuple[str, str]] = []
        self.test_results: list[dict[str, np.ndarray]] = [{} for _ in message["test_iter"]]
        self.action: Callable[[], str] = lambda: NONE
        self._callbacks: list[tuple[Callable[[], None], Callable[[], None]]] = []
        names = list(message["weights"]) if weights is None else [weights] if weights else []
        self.net = self._make_net(find_train_net(message, self.search, level, stages), names)
        self.test_nets: list[Net] = []
        try:
            for source in find_test_nets(message, self.search):
                self.test_nets.append(self._make_net(source, names))
                self.test_nets[-1].share_with(self.net)
        except BaseException:
            self.close()
            raise
        self._learning_rate = LearningRate(message)
        self._iteration = SolverIteration(self.net, message, self._seed)

    def _make_net(self, source: NetSource, weights: Sequence[str]) -> Net:
        net = Net.from_message(
            source.message,
            source.phase,
            precision=self._precision,
            seed=self._seed,
            folders=source.folders,
            allow_python=self._allow_python,
            run_dir=self._run_dir,
        )
        for names in weights:
            load_weights(net, names, self.search)
        return net

    @property
    def param(self) -> SolverParam:
        """The fields of the solver, as attributes: ``solver.param.base_lr``."""
        return SolverParam(self._message)

    @property
    def type(self) -> str:
        """The type: "SGD", "Adam", ..."""
        return str(self._message["type"])

    @property
    def lr(self) -> float:
        """The learning rate of the next iteration."""
        return self._learning_rate.peek(self.iter)

    # ---------------------------------------------------------------- training

    def step(self, count: int) -> None:
        """Train for a number of iterations. All blobs and parameters are then as the last one has left them: the
        ``diff`` of a parameter is what was taken from it.

        Raises TrainingError where a loss is not finite, or what an update would make of a parameter or its history; no
        parameter has been changed by that iteration.
        """
        self.is_stopped = False
        self._run(self.iter + count, keeps_blobs=True)

    def solve(self, resume_file: str | os.PathLike[str] | None = None, caffe_resume: bool = False) -> None:
        """Train up to ``max_iter``, with tests and snapshots as the solver says; resume_file: go on with this state,
        caffe_resume: as Caffe does (see `restore`).

        Raises errors as `step` and `restore` do, SnapshotError where a snapshot cannot be written.
        """
        param = self._message
        self.is_stopped = False
        if resume_file is not None:
            self.restore(resume_file, caffe_resume)
        self._check_space()
        start = self.iter
        smoothed = self._run(param["max_iter"], keeps_blobs=False)
        if param["snapshot_after_train"] and (not param["snapshot"] or self.iter % param["snapshot"]):
            self.snapshot()
        if self.is_stopped:
            self.log.write("Optimization stopped early.")
            return
        if param["display"] and self.iter % param["display"] == 0:
            loss = smoothed.add(self.net.forward_range(0, len(self.net.caffe_net.layers) - 1))
            self.log.iteration(self.iter, loss, 0 if self.iter == start else param["display"])
        if param["test_interval"] and self.iter % param["test_interval"] == 0:
            self.test_all()
        self.log.write("Optimization Done.")

    def _run(self, stop: int, keeps_blobs: bool) -> SmoothedLoss:
        """Iterations up to ``stop``; keeps_blobs: whether the last one leaves all blobs and gradients behind."""
        param = self._message
        smoothed = SmoothedLoss(param["average_loss"])
        self.log.restart()
        while self.iter < stop:
            interval = param["test_interval"]
            if interval and self.iter % interval == 0 and (self.iter or param["test_initialization"]):
                self.test_all()
                if self.is_stopped:
                    break
            for on_start, _ in self._callbacks:
                on_start()
            shows = bool(param["display"]) and self.iter % param["display"] == 0
            debugs = shows and param["debug_info"]
            rate = self._learning_rate.next(self.iter)
            if (keeps_blobs and self.iter == stop - 1) or self._callbacks or debugs:
                loss = self._iteration.run_layers(self.iter)
                if debugs:
                    self.log.write("\n".join(debug_lines(self.net)))
                for _, on_gradients_ready in self._callbacks:
                    on_gradients_ready()
                self._iteration.update(rate, self.iter, loss)
            else:
                loss = self._iteration.run(rate, self.iter)
            self.loss = smoothed.add(loss)
            if shows:
                self.log.iteration(self.iter, self.loss, param["display"])
                net = self.net.caffe_net
                self.log.outputs("Train", net, {name: self.net.blobs[name].read("data") for name in net.outputs})
                self.log.write(f"Iteration {self.iter}, lr = {rate:.6g}")
            self.iter += 1
            request = self.action()
            if (param["snapshot"] > 0 and self.iter % param["snapshot"] == 0) or request == SNAPSHOT:
                self.snapshot()
            if request == STOP:
                self.is_stopped = True
                break
        return smoothed

    def apply_update(self) -> None:
        """Update the parameters from the gradients in their ``diff``, with clipping and weight decay."""
        self._iteration.update(self._learning_rate.next(self.iter), self.iter)
        self.iter += 1

    def add_callback(self, on_start: Callable[[], None], on_gradients_ready: Callable[[], None]) -> None:
        """Call functions in each iteration: before it, and between its gradients and its update."""
        self._callbacks.append((on_start, on_gradients_ready))

    def share_weights(self, net: Net) -> None:
        """Let another net have the parameters of the layers of the same names."""
        net.share_with(self.net)

    # ---------------------------------------------------------------- tests

    def test_all(self) -> list[TestResult]:
        """Run all test nets and log the means of their outputs."""
        results = []
        for index in range(len(self.test_nets)):
            result = self.test(index)
            if result is None:
                self.log.write("Test interrupted.")
                break
            results.append(result)
        return results

    def test(self, index: int) -> TestResult | None:
        """Run a test net for its ``test_iter`` batches; None where `action` has stopped it."""
        self.log.write(f"Iteration {self.iter}, Testing net (#{index})")
        net = self.test_nets[index]
        result = run_test(net, self._message["test_iter"][index], self._asks_to_stop)
        if result is not None:
            self.test_results[index] = result.outputs
            if self._message["test_compute_loss"]:
                self.log.write(f"Test loss: {result.loss:.6g}")
            self.log.outputs("Test", net.caffe_net, result.outputs)
        return result

    def _asks_to_stop(self) -> bool:
        while (request := self.action()) != NONE:
            if request == SNAPSHOT:
                self.snapshot()
            else:
                self.is_stopped = True
                break
        return self.is_stopped

    # ---------------------------------------------------------------- snapshots

    def snapshot(self) -> tuple[str, str]:
        """Write the weights and the state; returns the paths of the two files. Values that are not finite are named by
        a RuntimeWarning. Raises SnapshotError."""
        names = snapshot_names(self._prefix.path, self.iter, self._message["snapshot_format"])
        self._prefix.check((*names, position_path(names[1])))
        self.log.write(f"Snapshotting to {names[0]} and {names[1]}")
        self._iteration.create_state()
        bad = non_finite_states(self.net.variables)
        if bad:
            text = f"{names[0]} gets values that are not finite: {describe_states(self.net.variables, bad)}"
            warn_user(text, RuntimeWarning)
        write_snapshot(
            self.net,
            self.type,
            names,
            self.iter,
            self._learning_rate.current_step,
            self._message["snapshot_diff"],
            self._position(),
        )
        self.snapshots.append(names)
        return names

    def _check_space(self) -> None:
        """Check that the snapshots of `solve` can be written. Raises SnapshotError."""
        param = self._message
        left = max(param["max_iter"] - self.iter, 0)
        count = left // param["snapshot"] if param["snapshot"] else int(param["snapshot_after_train"])
        if count:
            names = snapshot_names(self._prefix.path, self.iter, param["snapshot_format"])
            self._prefix.check(names)
            check_space(self.net, self.type, os.path.dirname(names[0]), count, param["snapshot_diff"])

    def _position(self) -> SolverPosition:
        batch, seed = self._iteration.position
        return SolverPosition(seed, batch, tuple(net.position() for net in (self.net, *self.test_nets)))

    def restore(self, state_file: str | os.PathLike[str], caffe_resume: bool = False) -> None:
        """Go on with a state, ``.solverstate`` or ``.solverstate.h5``, and the weights that it names.

        The data go on at the same batch, with the same random numbers, where the file is beside the state that
        `snapshot` has written there (``NAME.resume``); else they begin again at their first row, as
        with ``caffe_resume`` and in Caffe. The log says which. The states of recurrent layers begin anew.

        Raises ModelFileError for a file that is missing, damaged, or of another net or solver type.
        """
        state = read_solver_state(state_file)
        position = None if caffe_resume else read_position(state_file, state)
        nets = (self.net, *self.test_nets)
        if position is not None and len(position.nets) != len(nets):
            raise ModelFileError(
                f"{position_path(state_file)}: is of {len(position.nets)} nets, the solver has {len(nets)}; "
                "--caffe-resume goes on without it"
            )
        state = restore_snapshot(self.net, self.type, state_file, self.search)
        self.iter, self._learning_rate.current_step = state.iteration, state.current_step
        how = "the data begin at their first row, as in Caffe"
        if position is not None:
            self._seed = position.seed
            self._iteration.position = position.batch, position.seed
            for net, where in zip(nets, position.nets, strict=True):
                net.go_to(where, position.seed)
            how = "the data go on at the same row, with the same random numbers"
        elif not caffe_resume:
            how += f": there is no {os.path.basename(position_path(state_file))} of this state"
        self.log.write(f"Restored {os.fspath(state_file)}: iteration {self.iter}; {how}")

    def close(self) -> None:
        """End the threads that read data."""
        for net in (self.net, *self.test_nets):
            net.close()


class SGDSolver(Solver):
    """Stochastic gradient descent with momentum."""

    solver_type = "SGD"


class NesterovSolver(Solver):
    """SGD with Nesterov momentum."""

    solver_type = "Nesterov"


class AdaGradSolver(Solver):
    """Steps over the root of the sum of squared gradients (Duchi et al., 2011)."""

    solver_type = "AdaGrad"


class RMSPropSolver(Solver):
    """Steps over the root of the decaying mean of squared gradients (Tieleman and Hinton, 2012)."""

    solver_type = "RMSProp"


class AdaDeltaSolver(Solver):
    """AdaDelta; ``momentum`` is its decay rate."""

    solver_type = "AdaDelta"


class AdamSolver(Solver):
    """Adam; ``momentum`` and ``momentum2`` are its decay rates."""

    solver_type = "Adam"


_CLASSES = {
    cls.solver_type: cls
    for cls in (SGDSolver, NesterovSolver, AdaGradSolver, RMSPropSolver, AdaDeltaSolver, AdamSolver)
}


def get_solver(solver_file: str | os.PathLike[str], **options: Any) -> Solver:
    """The solver of a file, of the class of its ``type``. options: see `Solver`, whose errors are raised."""
    message = read_solver_file(solver_file)
    check_solver(message)
    return _CLASSES[message["type"]](solver_file, **options)
