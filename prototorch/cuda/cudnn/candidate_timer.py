"""Times of several ways to do the same work on a GPU, of which one is to be chosen.

A GPU that was idle runs at a low clock for some tens of milliseconds, and a single launch of a short kernel measures
the host. So the card is warmed up first, until two medians in a row agree; each candidate is captured as a graph of
several runs, as it will run in a step; the candidates are timed in turn, in several rounds, and their medians compared.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from statistics import median

from prototorch.cuda.device_protocol import CudaDevice
from prototorch.cuda.graph_capture import capture_graph

__all__ = ["CandidateTimer"]

log = logging.getLogger(__name__)

ROUNDS = 5  # of which each times every candidate once
MAX_ROUNDS = 15  # where the times of the best two overlap: something else runs on the card
BATCH_MS = 0.2  # the length of one measurement: a short candidate is run several times
MAX_REPEATS = 20
DROP_RATIO = 2.0  # a candidate slower than the best by this factor is left out after three runs
MIN_RATIO = 0.97  # the first candidate is replaced by one that takes less than this share of its time
WARM_UP_MS = 30.0  # at least, of work on an idle card
MAX_WARM_UP_MS = 300.0
WARM_UP_AGREEMENT = 0.03  # the relative difference of two medians of a card that is warm
WARM_UP_RUNS = 5  # measurements of a median
STAYS_WARM_SECONDS = 0.25  # after the last measurement


class CandidateTimer:
    """Times candidates on one device; it remembers when the card was busy last."""

    def __init__(self, device: CudaDevice):
        self.device = device
        self._warm_until = 0.0

    def choose(self, candidates: Mapping[int, Callable[[], None]]) -> int | None:
        """The key of the fastest candidate; each is a function that enqueues its work on the compute stream.

        The first that works is kept unless another takes less than `MIN_RATIO` of its time. Candidates that raise an
        error are left out; None where all do.
        """
        first_ms: dict[int, float] = {}
        for key, run in candidates.items():
            try:
                first_ms[key] = self._time(run)  # it also loads its code: it is timed again below
            except Exception as error:  # it fails after all, or needs more memory than there is
                log.debug("candidate %d cannot be timed: %s", key, error)
        if not first_ms:
            return None
        self._warm_up(candidates[min(first_ms, key=first_ms.__getitem__)])
        first_ms = {key: median(self._time(candidates[key]) for _ in range(3)) for key in first_ms}
        limit = DROP_RATIO * min(first_ms.values())
        batches = {k: self._make_batch(candidates[k], ms) for k, ms in first_ms.items() if ms <= limit}
        times: dict[int, list[float]] = {key: [] for key in batches}
        for _ in range(MAX_ROUNDS):
            for key, (run, repeats) in batches.items():
                times[key].append(self._time(run) / repeats)
            if len(next(iter(times.values()))) >= ROUNDS and _is_decided(list(times.values())):
                break
        self._warm_until = time.monotonic() + STAYS_WARM_SECONDS
        medians = {key: median(ms) for key, ms in times.items()}
        first, best = next(iter(first_ms)), min(medians, key=medians.__getitem__)
        return best if first not in medians or medians[best] < MIN_RATIO * medians[first] else first

    def _time(self, run: Callable[[], None]) -> float:
        """Milliseconds on the device's clock."""
        device = self.device
        start, end = device.create_event(timing=True), device.create_event(timing=True)
        device.record_event(start, device.compute_stream)
        run()
        device.record_event(end, device.compute_stream)
        device.synchronize_event(end)
        return device.elapsed_ms(start, end)

    def _warm_up(self, run: Callable[[], None]) -> None:
        """Keep the card busy until its clock has risen: two medians in a row agree."""
        if time.monotonic() < self._warm_until:
            return
        spent_ms, last = 0.0, 0.0
        while spent_ms < MAX_WARM_UP_MS:
            times = [self._time(run) for _ in range(WARM_UP_RUNS)]
            spent_ms += max(sum(times), 0.01)
            now = median(times)
            if spent_ms >= WARM_UP_MS and abs(now - last) <= WARM_UP_AGREEMENT * now:
                return
            last = now

    def _make_batch(self, run: Callable[[], None], ms: float) -> tuple[Callable[[], None], int]:
        """A function that runs a candidate several times, as one graph where it can be captured, and how often."""
        repeats = max(1, min(MAX_REPEATS, round(BATCH_MS / max(ms, 1e-3))))

        def run_repeatedly() -> None:
            for _ in range(repeats):
                run()

        try:
            graph = capture_graph(self.device, run_repeatedly)
        except Exception as error:  # a step with it cannot be captured either, and launches it from the host
            log.debug("a candidate is timed without a graph: %s", error)
            return run_repeatedly, repeats
        return lambda: self.device.launch_graph(graph), repeats


def _is_decided(times: list[list[float]]) -> bool:
    """Whether the quickest half of the best candidate's times lies apart from the medians of the others, or is so
    narrow that nothing disturbs it."""
    best, *others = sorted(times, key=median)
    upper = sorted(best)[(3 * len(best)) // 4]
    return upper <= 1.05 * median(best) or all(upper < median(other) for other in others)
