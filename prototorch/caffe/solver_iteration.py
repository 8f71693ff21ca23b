"""The iterations of a solver: as one plan, or layer by layer where something looks at blobs or gradients."""

from __future__ import annotations

import numpy as np

from prototorch.caffe.net import Net
from prototorch.caffe.param_blob import ParamBlob
from prototorch.caffe.solver_step import SolverStep
from prototorch.caffe.solver_update import SolverUpdate
from prototorch.caffe.text.message import Message
from prototorch.errors import TrainingError

__all__ = ["SolverIteration"]


class SolverIteration:
    """Runs the iterations of a net.

    net: the train net. solver: a SolverParameter in its newest form. seed: of random layers.
    """

    def __init__(self, net: Net, solver: Message, seed: int):
        self.net, self._solver, self._seed = net, solver, seed
        self._iter_size = solver["iter_size"]
        self._step: SolverStep | None = None
        self._update: SolverUpdate | None = None
        self._first_batch = 0
        self._statistics: list[tuple[ParamBlob, np.ndarray]] = []  # as they were before the forward pass

    @property
    def is_one_plan(self) -> bool:
        """Whether an iteration is one plan: no layer runs in Python but those that read data."""
        net = self.net.caffe_net
        return all(layer.kind != "host" and layer.phase(net.phase) == net.phase for layer in net.layers)

    def _current_step(self) -> SolverStep:
        net = self.net.caffe_net
        if self._step is None or self._step.net is not net:
            first_batch, _ = self.position
            self._step = SolverStep(net, self.net.variables, self.net.backend, self._solver, self._seed)
            self._step.num_batches = first_batch
        return self._step

    def create_state(self) -> None:
        """Make the optimizer's state, if it is not there yet."""
        self._current_update()

    def _current_update(self) -> SolverUpdate:
        step = self._current_step()
        if self._update is None:
            solver = self._solver
            self._update = SolverUpdate(self.net, step, solver["type"], solver["momentum"], self._iter_size)
        return self._update

    @property
    def position(self) -> tuple[int, int]:
        """The number of the next batch of iterations that are one plan, and the seed of random layers; also to be
        set."""
        return (0 if self._step is None else self._step.num_batches) or self._first_batch, self._seed

    @position.setter
    def position(self, value: tuple[int, int]) -> None:
        self._first_batch, self._seed = value
        if self._step is not None:
            self._step.num_batches, self._step.seed = value

    def run(self, rate: float, iteration: int) -> float:
        """A whole iteration; the outputs' blobs get their values. Returns the loss, the mean over its batches."""
        if not self.is_one_plan:
            loss = self.run_layers(iteration)
            self.update(rate, iteration, loss)
            return loss
        total = 0.0
        self.net.write_params()
        for batch in range(self._iter_size):
            self.net.read_inputs()
            step = self._current_step()
            blobs = self.net.blobs
            inputs = {value: blobs[blob].read("data") for blob, value in step.net.inputs.items()}
            with self.net.naming_labels():
                result = step.run(inputs, rate, iteration, batch)
            total += result.loss
            for name, array in result.outputs.items():
                blobs[name].store("data", array)
        return total / self._iter_size

    def run_layers(self, iteration: int) -> float:
        """The forward and backward passes of an iteration; gradients are added up in the parameters' ``diff``."""
        self._statistics = [(blob, np.array(blob.data)) for blob in self._running_statistics()]
        for blobs in self.net.params.values():
            for blob in blobs:
                blob.diff[...] = 0
        last = len(self.net.caffe_net.layers) - 1
        total = 0.0
        for _ in range(self._iter_size):
            total += self.net.forward_range(0, last)
            self.net.backward_range(0, last)
        return total / self._iter_size

    def update(self, rate: float, iteration: int, loss: float = 0.0) -> None:
        """The update of an iteration, from the parameters' ``diff``. loss: see `SolverUpdate.run`."""
        try:
            self._current_update().run(rate, iteration, loss)
        except TrainingError:
            for blob, before in self._statistics:
                blob.data[...] = before
            raise
        finally:
            self._statistics = []

    def _running_statistics(self) -> list[ParamBlob]:
        """The parameters that the forward pass changes: those of BatchNorm layers."""
        layers = [layer.name for layer in self.net.caffe_net.layers if layer.message["type"] == "BatchNorm"]
        return [blob for name in layers for blob in self.net.params.get(name, ())]
