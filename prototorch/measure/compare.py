"""The same net here and in PyTorch: whether the results agree, and the time of each, measured alternately."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np

from prototorch.errors import BackendError, UsageError
from prototorch.interop import torch_module
from prototorch.model.diagnose import default_batch_size, resolve_phase
from prototorch.model.model import Model
from prototorch.optimizers.sgd import SGD
from prototorch.spec import Spec
from prototorch.train.step_inputs import PREDICT, TARGET_PREFIX, TEST, TRAIN, step_of
from prototorch.train.summary import step_specs
from prototorch.train.synthetic_batch import make_synthetic_batch

__all__ = ["TOLERANCE", "BenchmarkResult", "PeerComparison", "compare_with_torch"]

MOMENTUM = 0.9
#: how far outputs may differ, relative to the largest: rounding in float32 stays well below, another net far above
TOLERANCE = 1e-3
_ROUND_SECONDS = 0.05  # shorter calls are repeated within a round
_TOTAL_SECONDS = 6.0  # of all rounds, where their number is not given
_MIN_ROUNDS, _MAX_ROUNDS = 3, 15


@dataclass(frozen=True)
class BenchmarkResult:
    """Median seconds of a call by framework, prototorch first."""

    what: str
    seconds: dict[str, float]
    rounds: int

    @property
    def ratio(self) -> float:
        """The time of the fastest peer over that of prototorch: above 1 prototorch is faster."""
        ours, *peers = self.seconds.values()
        return min(peers) / ours


@dataclass(frozen=True)
class PeerComparison:
    """A net here and in PyTorch. ``differences``: of each output, and of the loss, relative to the largest element."""

    title: str
    peer: str
    differences: dict[str, float]
    results: tuple[BenchmarkResult, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: times in seconds."""
        results = [{**asdict(result), "ratio": result.ratio} for result in self.results]
        return {"title": self.title, "rival": self.peer, "differences": self.differences, "races": results}

    def lines(self) -> Iterator[str]:
        """The text, line by line."""
        yield f"{self.title}, against {self.peer}"
        differences = ", ".join(f"{name} {d:.1e}" for name, d in self.differences.items())
        yield f"the nets agree; largest differences relative to the largest element: {differences}"
        for result in self.results:
            times = ", ".join(f"{name} {seconds * 1e3:.3f} ms" for name, seconds in result.seconds.items())
            yield f"{result.what}: {times}; ratio {result.ratio:.2f} (medians of {result.rounds}, measured alternately)"


def compare_with_torch(
    model: Model, phase: str | None = None, batch: int | None = None, rounds: int | None = None
) -> PeerComparison:
    """Build a model's net in PyTorch with the same weights, check that outputs and losses agree, and time both.

    phase: "predict" for the prediction alone, "train" for it and the training step (the default where there is a loss).
    Both train by SGD with momentum 0.9 and a learning rate of 0, without metrics. The model is compiled anew for it.
    Raises UsageError where PyTorch is not installed, a layer or loss is not translated, or the model is not on the CPU;
    BackendError where the two do not agree.
    """
    torch_module("torch_module")  # before anything is allocated
    phase, batch = resolve_phase(model, phase), batch or default_batch_size(model)
    if phase == TEST:
        raise UsageError("--against compares train or predict")
    block = model.compile_block
    if step_of(phase):
        raise UsageError("--against trains by one step, and this model by steps that alternate: use --phase predict")
    if phase == TRAIN:
        assert block is not None
        model.set_compile(block.replace(optimizer=SGD(momentum=MOMENTUM), metrics=(), weighted_metrics=()))
    backend = model.trainer.plan_cache.backend
    if backend.xp is not np:
        raise UsageError(f"--against compares on the CPU, not on {backend.name}; use --device cpu")
    specs = step_specs(model.net, batch)
    ours = _ModelSteps(model, specs)
    peers = _build_peers(model, specs, phase == TRAIN)
    return _compare(ours, peers, phase, batch, rounds)


class _ModelSteps:
    """The steps of a model, each bound to a synthetic batch."""

    def __init__(self, model: Model, specs: Mapping[str, Spec]):
        self.model, self.specs, self.plans = model, specs, model.trainer.plan_cache
        self.inputs: dict[str, Any] = {}

    def bind_step(self, phase: str) -> Callable[[], dict[str, Any]]:
        executor = self.plans.executor(phase, self.specs)
        self.inputs = inputs = make_synthetic_batch(self.plans, executor.plan, self.specs)
        return lambda: executor(inputs)


def _build_peers(model: Model, specs: Mapping[str, Spec], training: bool) -> dict[str, Any]:
    """PyTorch with its default memory format, and for a net that convolves images also with channels_last."""
    module = torch_module("torch_baseline")
    threads = model.trainer.plan_cache.backend.threads
    terms = model.trainer.plan_cache.loss_terms if training else ()
    peers = {"torch": module.TorchBaseline(model.net, specs, model.weights, terms, threads, MOMENTUM)}
    if any(np.ndim(w) == 4 for w in model.weights.values()):  # kernels of image convolutions
        peers["torch channels_last"] = module.TorchBaseline(
            model.net, specs, model.weights, terms, threads, MOMENTUM, True
        )
    return peers


def _compare(ours: _ModelSteps, peers: Mapping[str, Any], phase: str, batch: int, rounds: int | None) -> PeerComparison:
    predict = ours.bind_step(PREDICT)
    differences: dict[str, float] = {}
    for peer in peers.values():
        peer.feed({name: ours.inputs[name] for name in ours.specs})
        _record_differences(differences, predict(), peer.predict())
    races = [_time_calls("prediction", {"prototorch": predict, **{n: r.predict for n, r in peers.items()}}, rounds)]
    if phase == TRAIN:
        test = ours.bind_step(TEST)
        targets = {n.removeprefix(TARGET_PREFIX): a for n, a in ours.inputs.items() if n.startswith(TARGET_PREFIX)}
        for peer in peers.values():
            peer.targets(targets)
            _record_differences(differences, {"loss": test()["loss"]}, {"loss": peer.loss()})
        train = ours.bind_step(TRAIN)
        races.append(
            _time_calls("training step", {"prototorch": train, **{n: r.train for n, r in peers.items()}}, rounds)
        )
    backend = ours.plans.backend
    title = f"{ours.model.net.name}: batch {batch}, {backend.name}, {backend.threads} threads"
    return PeerComparison(title, next(iter(peers.values())).version, differences, tuple(races))


def _record_differences(differences: dict[str, float], ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    """Record how far outputs differ. Raises BackendError where that is more than rounding."""
    for name, array in ours.items():
        values, other = np.asarray(array, np.float64), np.asarray(theirs[name], np.float64)
        largest = max(np.abs(other).max(initial=0), 1e-6)
        same = values.shape == other.shape
        difference = float(np.abs(values - other).max(initial=0) / largest) if same else float("inf")
        if not difference <= TOLERANCE:
            raise BackendError(
                f"PyTorch's {name} differs from ours by {difference:.1e} of its largest element "
                f"(shapes {list(values.shape)} and {list(other.shape)}): the times would not be those of one net"
            )
        differences[name] = max(difference, differences.get(name, 0.0))


def _time_calls(what: str, contenders: Mapping[str, Callable[[], Any]], rounds: int | None) -> BenchmarkResult:
    """Median seconds of a call of each, measured alternately; short calls are repeated within a round."""
    repeats, round_seconds = {}, 0.0
    for name, call in contenders.items():
        call()
        begin = time.perf_counter()
        call()
        seconds = time.perf_counter() - begin
        repeats[name] = 1 if rounds == 1 else max(1, int(_ROUND_SECONDS / max(seconds, 1e-7)))
        round_seconds += repeats[name] * seconds
    rounds = rounds or max(_MIN_ROUNDS, min(_MAX_ROUNDS, int(_TOTAL_SECONDS / round_seconds)))
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            begin = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            times[name].append((time.perf_counter() - begin) / repeats[name])
    return BenchmarkResult(what, {name: median(t) for name, t in times.items()}, rounds)
