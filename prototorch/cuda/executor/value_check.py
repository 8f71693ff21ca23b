"""The check of values on the device: from the first step that has counted a value outside of its bounds no step of the
plan writes a state, until the host has raised the error.

The device writes into the host's memory that it has counted one. The host looks there at each call, which waits for
nothing; where it waits for the device anyhow (`Tensor.item`, `cuda.synchronize`, arrays that are copied to the host,
and so snapshots), it knows of all steps so far. The values of the step that counted the first one are kept, so that the
error can name it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from prototorch.cuda.device_protocol import CudaDevice
from prototorch.cuda.device_sources import ValueCheckState
from prototorch.engine.backends.executable_plan import ValueGuard
from prototorch.engine.backends.value_guard import raise_value_error
from prototorch.errors import PrototorchError

__all__ = ["DeviceValueCheck"]


class DeviceValueCheck:
    """The check of one plan's values.

    array: gives the array of a buffer of the plan.

    Attributes:
        block: memory with the fields of `ValueCheckState`.
        write_states: int32[1] on the device, whether the step writes states.
        outside: the count of a step. report: the host's int32[1], 1 after a count that was not 0.
        steps_started: steps since the last reset.
    """

    def __init__(self, device: CudaDevice, guard: ValueGuard, array: Callable[[Any], Any]):
        self.device, self.outside = device, array(guard.count)
        self.block = device.alloc(ValueCheckState.itemsize)
        self.write_states, is_first = self.block[4:8].view("int32"), self.block[8:12].view("int32")
        self.report = device.alloc_pinned(4).view(np.int32)
        self._checks = []
        for check, buffer in guard.checks:
            source = array(buffer) if buffer.spec.layout is None else device.xp.moveaxis(array(buffer), 1, -1)
            self._checks.append((check, device.empty(tuple(source.shape), buffer.spec.dtype), source))
        pairs = [(target, source) for _, target, source in self._checks]
        self.keep_values = device.make_conditional_copy(pairs, is_first)
        self.steps_started = 0
        self.reset()

    def reset(self) -> None:
        """Start again: no value outside was counted."""
        self.device.overwrite(self.block, np.array([(1, 1, 0, 0)], ValueCheckState).view("uint8"))
        self.report[0], self.steps_started = 0, 0

    def raise_error(self) -> None:
        """Raise the error of the first value outside, where the host has been told of one: IndexRangeError, UsageError.

        It says how many steps were started after that one.
        """
        if not self.report[0]:
            return
        (state,) = self.device.download(self.block).view(ValueCheckState)
        later = self.steps_started - int(state["valid_steps"]) - 1
        checks = [(check, self.device.download(values)) for check, values, _ in self._checks]
        self.reset()
        try:
            raise_value_error(checks)
        except PrototorchError as error:
            if not later:
                raise
            steps = "the call after it has" if later == 1 else f"the {later} calls after it have"
            raise type(error)(f"{error}. This was read by an earlier call; it and {steps} changed nothing") from None
