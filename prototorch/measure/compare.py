"""The same net here and in PyTorch: do they agree, and how long does each take, taken turn by turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np

from prototorch.checking import default_batch_size, resolve_phase
from prototorch.errors import BackendError, UsageError
from prototorch.interop import torch_module
from prototorch.model import Model
from prototorch.optimizers.sgd import SGD
from prototorch.spec import Spec
from prototorch.train.step_inputs import PREDICT, TARGET_PREFIX, TEST, TRAIN
from prototorch.train.summary import step_specs
from prototorch.train.synthetic_batch import make_synthetic_batch

PEERS = ("torch",)
MOMENTUM = 0.9
#: how far outputs may differ, relative to the largest: rounding in float32 stays well below, another net far above
TOLERANCE = 1e-3
_ROUND_SECONDS = 0.05  # seconds: shorter calls are repeated within a turn
_TOTAL_SECONDS = 6.0  # of turns, where nobody says how many
_MIN_ROUNDS, _MAX_ROUNDS = 3, 15


@dataclass(frozen=True)
class BenchmarkResult:
    """Median seconds of a call by contender; ``ratio`` is the best rival's time over ours: above 1 we are ahead."""

    what: str
    seconds: dict[str, float]
    rounds: int

    @property
    def ratio(self) -> float:
        """The best rival's time over ours."""
        ours, *rivals = self.seconds.values()
        return min(rivals) / ours


@dataclass(frozen=True)
class PeerComparison:
    """A net here and in PyTorch. ``differences``: of each output, and of the loss, relative to the largest element."""

    title: str
    rival: str
    differences: dict[str, float]
    races: tuple[BenchmarkResult, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: times in seconds."""
        races = [{**asdict(race), "ratio": race.ratio} for race in self.races]
        return {"title": self.title, "rival": self.rival, "differences": self.differences, "races": races}

    def lines(self) -> Iterator[str]:
        """The text, line by line."""
        yield f"{self.title}, against {self.rival}"
        told = ", ".join(f"{name} {d:.1e}" for name, d in self.differences.items())
        yield f"the nets agree; largest differences relative to the largest element: {told}"
        for race in self.races:
            times = ", ".join(f"{name} {seconds * 1e3:.3f} ms" for name, seconds in race.seconds.items())
            yield f"{race.what}: {times}; ratio {race.ratio:.2f} (medians of {race.rounds}, turn by turn)"


def compare_with_torch(
    model: Model, phase: str | None = None, batch: int | None = None, rounds: int | None = None
) -> PeerComparison:
    """Build a model's net in PyTorch with the same weights, check that outputs and losses agree, and time both.

    phase: "predict" for the prediction alone, "train" for it and the training step (the default where there is a loss).
    Both train by SGD with momentum 0.9 and a learning rate of 0, without metrics. The model is compiled anew for it.
    Raises UsageError where PyTorch is not installed, a layer or loss is not translated, or the model is not on the CPU;
    BackendError where the two do not agree.
    """
    torch_module("torch_net")  # before anything is made
    phase, batch = resolve_phase(model, phase), batch or default_batch_size(model)
    if phase == TEST:
        raise UsageError("--against compares train or predict")
    block = model.compile_block
    if phase == TRAIN:
        assert block is not None
        model.set_compile(block.replace(optimizer=SGD(momentum=MOMENTUM), metrics=(), weighted_metrics=()))
    backend = model.trainer.plan_cache.backend
    if backend.xp is not np:
        raise UsageError(f"--against compares on the CPU, not on {backend.name}: say --device cpu")
    specs = step_specs(model.net, batch)
    ours = _ModelSteps(model, specs)
    rivals = _build_peers(model, specs, phase == TRAIN)
    return _compare(ours, rivals, phase, batch, rounds)


class _ModelSteps:
    """A model's step, ready to be called."""

    def __init__(self, model: Model, specs: Mapping[str, Spec]):
        self.model, self.specs, self.program = model, specs, model.trainer.plan_cache
        self.inputs: dict[str, Any] = {}

    def bind_step(self, phase: str) -> Callable[[], dict[str, Any]]:
        runner = self.program.executor(phase, self.specs)
        self.inputs = inputs = make_synthetic_batch(self.program, runner.plan, self.specs)
        return lambda: runner(inputs)


def _build_peers(model: Model, specs: Mapping[str, Spec], training: bool) -> dict[str, Any]:
    """PyTorch as it comes, and for a net that convolves pictures also with its channels last."""
    rival = torch_module("torch_peer")
    threads = model.trainer.plan_cache.backend.threads
    terms = model.trainer.plan_cache.loss_terms if training else ()
    made = {"torch": rival.TorchPeer(model.net, specs, model.weights, terms, threads, MOMENTUM)}
    if any(np.ndim(w) == 4 for w in model.weights.values()):  # kernels of pictures
        made["torch channels_last"] = rival.TorchPeer(model.net, specs, model.weights, terms, threads, MOMENTUM, True)
    return made


def _compare(
    ours: _ModelSteps, rivals: Mapping[str, Any], phase: str, batch: int, rounds: int | None
) -> PeerComparison:
    predict = ours.bind_step(PREDICT)
    differences: dict[str, float] = {}
    for rival in rivals.values():
        rival.feed({name: ours.inputs[name] for name in ours.specs})
        _record_differences(differences, predict(), rival.predict())
    races = [_time_calls("prediction", {"prototorch": predict, **{n: r.predict for n, r in rivals.items()}}, rounds)]
    if phase == TRAIN:
        test = ours.bind_step(TEST)
        targets = {n.removeprefix(TARGET_PREFIX): a for n, a in ours.inputs.items() if n.startswith(TARGET_PREFIX)}
        for rival in rivals.values():
            rival.targets(targets)
            _record_differences(differences, {"loss": test()["loss"]}, {"loss": rival.loss()})
        train = ours.bind_step(TRAIN)
        races.append(
            _time_calls("training step", {"prototorch": train, **{n: r.train for n, r in rivals.items()}}, rounds)
        )
    backend = ours.program.backend
    title = f"{ours.model.net.name}: batch {batch}, {backend.name}, {backend.threads} threads"
    return PeerComparison(title, next(iter(rivals.values())).version, differences, tuple(races))


def _record_differences(differences: dict[str, float], ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    """Note how far arrays are apart. Raises BackendError for what is not of one net."""
    for name, array in ours.items():
        mine, other = np.asarray(array, np.float64), np.asarray(theirs[name], np.float64)
        largest = max(np.abs(other).max(initial=0), 1e-6)
        same = mine.shape == other.shape
        found = float(np.abs(mine - other).max(initial=0) / largest) if same else float("inf")
        if not found <= TOLERANCE:
            raise BackendError(
                f"PyTorch's {name} differs from ours by {found:.1e} of its largest element "
                f"(shapes {list(mine.shape)} and {list(other.shape)}): the times would not be of one net"
            )
        differences[name] = max(found, differences.get(name, 0.0))


def _time_calls(what: str, contenders: Mapping[str, Callable[[], Any]], rounds: int | None) -> BenchmarkResult:
    """Median seconds of a call of each, taken turn by turn; short calls are repeated within a turn."""
    repeats, one = {}, 0.0
    for name, call in contenders.items():
        call()
        begin = time.perf_counter()
        call()
        seconds = time.perf_counter() - begin
        repeats[name] = 1 if rounds == 1 else max(1, int(_ROUND_SECONDS / max(seconds, 1e-7)))
        one += repeats[name] * seconds
    rounds = rounds or max(_MIN_ROUNDS, min(_MAX_ROUNDS, int(_TOTAL_SECONDS / one)))
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            begin = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            times[name].append((time.perf_counter() - begin) / repeats[name])
    return BenchmarkResult(what, {name: median(t) for name, t in times.items()}, rounds)
