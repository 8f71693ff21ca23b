"""The check of the loss and of the gradients on the device: from the first that is not finite no update counts.

The host reads the result of the check every `REPORT_INTERVAL` steps, so that it knows within `MAX_REPORT_LAG` steps.
Nothing else is copied to the host for it.
"""

from __future__ import annotations

import numpy as np

from prototorch.cuda.device_protocol import CudaDevice
from prototorch.cuda.device_sources import LossCheckState
from prototorch.engine.backends.executable_plan import GUARD, LOSS
from prototorch.engine.backends.executor import LossGuard

__all__ = ["MAX_REPORT_LAG", "REPORT_INTERVAL", "DeviceLossCheck"]

REPORT_INTERVAL = 4  # steps between two reports
MAX_REPORT_LAG = 2 * REPORT_INTERVAL  # steps after which the host knows at the latest


class DeviceLossCheck:
    """The check that all training plans of a model share.

    Attributes:
        all_finite: int32[1] on the device: 1 until a loss or a gradient is not finite, then 0.
        apply_updates: int32[1] on the device: whether the updates of the step count.
        not_finite: int32[1] on the device: whether a gradient of the step is not finite.
        steps_started: steps since the last reset.
    """

    def __init__(self, device: CudaDevice):
        self.device = device
        self.block = device.alloc(LossCheckState.itemsize)
        self.all_finite, self.apply_updates = self.block[:4].view("int32"), self.block[4:8].view("int32")
        self.not_finite = self.block[16:20].view("int32")
        self._report = device.alloc_pinned(LossCheckState.itemsize)
        self._event = device.create_event()
        self.steps_started = 0
        self._report_requested = False
        self.reset()

    def reset(self) -> None:
        """Start again: nothing checked yet, updates count."""
        start = np.array([(1, 1, 0, 0.0, 0)], LossCheckState)
        self.device.overwrite(self.block, start.view("uint8"))
        self.steps_started, self._report_requested = 0, False

    def read_report(self, guard: LossGuard) -> None:
        """Wait for the last report; call the guard where it says that a loss, or a gradient, was not finite: with LOSS,
        and with NaN as GUARD.

        The error that the guard raises gets an attribute ``steps_since``: how many steps were started after that one.
        """
        if not self._report_requested:
            return
        self.device.synchronize_event(self._event)
        self._report_requested = False
        (state,) = self._report.view(LossCheckState)
        if state["all_finite"]:
            return
        steps_since, loss = self.steps_started - int(state["finite_steps"]) - 1, np.float32(state["loss"])
        self.reset()
        try:
            guard({LOSS: loss, GUARD: np.float32(np.nan)})
        except Exception as error:
            error.steps_since = steps_since  # type: ignore[attr-defined]
            raise

    def request_report(self) -> None:
        """Have the device copy the state of the check to the host."""
        self.device.copy_to_host(self._report, self.block, self.device.compute_stream)
        self.device.record_event(self._event, self.device.compute_stream)
        self._report_requested = True
