"""What is said where cuDNN gives no plan: nothing of a refusal, one warning of each kind of failure."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from prototorch.cuda.cudnn import context as context_module
from prototorch.cuda.cudnn import planning_log
from prototorch.cuda.cudnn.context import CudnnContext, get_context
from prototorch.cuda.cudnn.graph_desc import GraphDesc, TensorDesc
from prototorch.engine.backends.precision import ExecutionSettings
from prototorch.errors import BackendError
from tests.cuda.offline.recording_devices import PlanDevice

X = TensorDesc((2, 4), (4, 1), "float32")


class NotSupportedError(Exception):
    """cuDNN's error of a graph that no engine supports."""


class FakeGraph:
    """A graph whose planning fails."""

    def __init__(self, error, declined=None):
        self.error, self._backend_declined = error, declined

    def __getattr__(self, name):
        return lambda *args, **kwargs: SimpleNamespace()

    def create_execution_plans(self, modes):
        logging.getLogger("cudnn.pygraph").warning("backend could not lower this graph")
        raise self.error


def plan(monkeypatch, *graphs, kinds=("matmul",)):
    """Plans of graphs that fail like these; the context."""
    monkeypatch.setattr(planning_log, "_warned", set())
    monkeypatch.setitem(context_module.ExecutionPlan._plan.__globals__["BUILDERS"], "other", lambda *_: {})
    monkeypatch.setitem(context_module.ExecutionPlan._plan.__globals__["BUILDERS"], "matmul", lambda *_: {})
    types = SimpleNamespace(FLOAT=0, DOUBLE=1)
    modes = SimpleNamespace(A=0, FALLBACK=1)
    module = SimpleNamespace(data_type=types, heur_mode=modes, cudnnGraphNotSupportedError=NotSupportedError)
    queue = list(graphs)
    device = PlanDevice("fp32")  # alive for as long as plans are made for it
    context = CudnnContext(module, device, lambda *_: queue.pop(0))
    for kind in kinds:
        for size in range(len(graphs) // len(kinds)):
            assert context.get_plan(GraphDesc(kind, (("x", X),), (), (("size", size),))) is None
    assert not queue
    return context


def warnings_of(caplog):
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


def test_a_refusal_is_no_warning(monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    plan(monkeypatch, FakeGraph(NotSupportedError("no engine")))
    assert warnings_of(caplog) == []
    messages = [r.getMessage() for r in caplog.records]
    assert any("no engine" in m for m in messages)
    assert "cuDNN's graph API: backend could not lower this graph" in messages


def test_a_failure_is_warned_of_once_for_each_kind_and_reason(monkeypatch, caplog):
    missing = "Unable to load any libcudart.so.* library."
    graphs = [FakeGraph(RuntimeError(missing)) for _ in range(4)]
    plan(monkeypatch, *graphs, kinds=("matmul", "other"))
    found = warnings_of(caplog)
    assert [kind for text in found for kind in ("matmul", "other") if f"of the kind {kind} " in text] == [
        "matmul",
        "other",
    ]
    assert all(f"RuntimeError: {missing}" in text and "prototorch devices" in text for text in found)


@pytest.mark.parametrize("error", [ValueError("bad"), KeyError("scale"), NotImplementedError("no"), OSError("gone")])
def test_a_failure_of_any_type_is_warned_of(monkeypatch, caplog, error):
    plan(monkeypatch, FakeGraph(error))
    assert len(warnings_of(caplog)) == 1
    assert type(error).__name__ in warnings_of(caplog)[0]


def test_a_failure_that_the_graph_api_calls_a_refusal(monkeypatch, caplog):
    """Its router turns an error of the backend into "no engine"."""
    plan(monkeypatch, FakeGraph(NotSupportedError("no engine"), RuntimeError("CUDA error 999")))
    assert len(warnings_of(caplog)) == 1
    assert "RuntimeError: CUDA error 999" in warnings_of(caplog)[0]


def test_other_threads_and_times_keep_their_warnings(monkeypatch, caplog):
    plan(monkeypatch, FakeGraph(NotSupportedError("no engine")))
    logging.getLogger("cudnn.pygraph").warning("of somebody else")
    assert warnings_of(caplog) == ["of somebody else"]


class Gpu:
    """A device with a stream."""

    compute_stream = SimpleNamespace(ptr=1)
    precision, deterministic = "fp32", False
    settings = ExecutionSettings()


def start(monkeypatch, cudart=lambda: "libcudart.so.13", cudnn=lambda: None):
    monkeypatch.setattr(planning_log, "_warned", set())
    monkeypatch.setattr(context_module, "load_cudart", cudart)
    module = SimpleNamespace(create_handle=cudnn, set_stream=lambda *_: None)
    monkeypatch.setattr(context_module.importlib, "import_module", lambda _: module)
    devices = Gpu(), Gpu()
    return [get_context(device) for device in devices]


def raise_error(error):
    def function():
        raise error

    return function


def test_without_cudart_there_is_one_warning(monkeypatch, caplog):
    contexts = start(
        monkeypatch, cudart=raise_error(BackendError("libcudart is not found: install nvidia-cuda-runtime"))
    )
    assert None not in contexts, "convolutions do not need it"
    assert [
        text for text in warnings_of(caplog) if "nvidia-cuda-runtime" in text and "attention" in text
    ] == warnings_of(caplog)
    assert len(warnings_of(caplog)) == 1


def test_a_library_that_does_not_start(monkeypatch, caplog):
    """Its version does not fit, or there are two: also an AssertionError of the package."""
    contexts = start(monkeypatch, cudnn=raise_error(AssertionError("Found 2 libcudnn.so.x")))
    assert contexts == [None, None]
    assert len(warnings_of(caplog)) == 1
    assert "AssertionError: Found 2 libcudnn.so.x" in warnings_of(caplog)[0]


def test_an_engine_that_cannot_be_built_is_warned_of(monkeypatch, caplog):
    """NVRTC may fail; what the settings leave out is no failure."""
    monkeypatch.setattr(planning_log, "_warned", set())
    errors = {0: NotSupportedError("Deselecting execution plan"), 1: RuntimeError("NVRTC failed"), 2: None}

    class Graph:
        def get_execution_plan_count(self):
            return 3

        def get_plan_name_at_index(self, index):
            return f"eng{index}"

        def build_plan_at_index(self, index):
            if errors[index]:
                raise errors[index]

    plan = object.__new__(context_module.ExecutionPlan)
    plan.graph, plan.preferred, plan.desc = Graph(), None, GraphDesc("conv", (("x", X),), ())
    plan.context = SimpleNamespace(module=SimpleNamespace(cudnnGraphNotSupportedError=NotSupportedError))
    assert plan._build_first() == 2
    assert len(warnings_of(caplog)) == 1
    assert (
        "engine eng1 of a graph of the kind conv cannot be built (RuntimeError: NVRTC failed)" in warnings_of(caplog)[0]
    )
