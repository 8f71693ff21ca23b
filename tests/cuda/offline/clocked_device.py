"""A fake device whose kernels take time, by a clock that rises with work, and a cuDNN whose plans differ in speed."""

from __future__ import annotations

from types import SimpleNamespace

from prototorch.cuda.cudnn.context import CudnnContext, set_context
from prototorch.cuda.fake_device import FakeDevice
from prototorch.engine.backends.precision import ExecutionSettings, resolve_precision


class NotSupportedError(Exception):
    """As cuDNN's."""


class ClockedDevice(FakeDevice):
    """Events have the time at which they happen. For ``cold_ms`` of work everything takes twice as long."""

    def __init__(self, autotune=True, precision="tf32", cold_ms=0.0, memory=1 << 32):
        super().__init__(ExecutionSettings(resolve_precision(precision, gpu=True), autotune=autotune), memory)
        self.cold_ms, self.now = cold_ms, 0.0

    def record_event(self, event, stream):
        super().record_event(event, stream)
        stream.queue.append(("time", lambda: setattr(event, "ms", self.now)))

    def synchronize_event(self, event):
        super().synchronize_event(event)
        self._run_all(event.stream)

    def elapsed_ms(self, start, end):
        return end.ms - start.ms

    def work(self, ms):
        self.now += ms * (2 if self.now < self.cold_ms else 1)


class Tensor:
    """A tensor of a graph; uids count from 1."""

    def __init__(self, graph, name):
        self.name, self.uid = name, len(graph.ports) + 1
        graph.ports.append(self)

    def get_uid(self):
        return self.uid

    def set_output(self, _):
        return self

    set_data_type = set_dim = set_stride = set_output


class Graph:
    """A graph. Its plans: names, milliseconds (None: it cannot be executed), bytes of workspace (None: nor built)."""

    def __init__(self, cudnn):
        self.cudnn, self.built, self.candidate, self.ports = cudnn, set(), None, []

    def __getattr__(self, name):
        if name in (
            "validate",
            "build_operation_graph",
            "create_execution_plans",
            "check_support",
            "deselect_numeric_notes",
            "deselect_workspace_greater_than",
        ):
            return lambda *_: None
        raise AttributeError(name)

    def tensor(self, name, **_):
        return Tensor(self, name)

    def conv_fprop(self, **_):
        return Tensor(self, "y")

    def get_execution_plan_count(self):
        return len(self.cudnn.plans)

    def get_plan_name_at_index(self, index):
        return self.cudnn.plans[index][0]

    def build_plan_at_index(self, index):
        if self.cudnn.plans[index][2] is None:
            raise NotSupportedError("it cannot be built")
        self.built.add(index)
        self.candidate = index

    def build_plans(self):
        self.build_plan_at_index(next(i for i, p in enumerate(self.cudnn.plans) if p[2] is not None))

    def get_workspace_size_plan_at_index(self, index):
        assert index in self.built
        return self.cudnn.plans[index][2]

    def get_workspace_size(self):
        return self.get_workspace_size_plan_at_index(self.candidate)

    def execute_plan_at_index(self, addresses, workspace, index, handle):
        assert index in self.built
        assert set(addresses) == {p.uid for p in self.ports}
        name, ms, _ = self.cudnn.plans[index]
        if ms is None:
            raise RuntimeError("it fails after all")
        self.cudnn.executed.append(name)
        self.cudnn.seen(addresses)
        self.cudnn.device.work(ms() if callable(ms) else ms)


class FakeCudnn:
    """The module cudnn. plans: of every graph, in its ranking."""

    __version__ = "1.28.0"
    cudnnGraphNotSupportedError = NotSupportedError
    heur_mode = numerical_note = SimpleNamespace(
        A=0, FALLBACK=1, TENSOR_CORE=2, DOWN_CONVERT_INPUTS=3, NONDETERMINISTIC=4
    )
    data_type = SimpleNamespace(FLOAT=0, DOUBLE=1, HALF=2, BFLOAT16=3, INT32=4, BOOLEAN=5)

    def __init__(self, device, plans, version=91900, seen=lambda addresses: None):
        self.device, self.plans, self.version, self.seen = device, plans, version, seen
        self.executed, self.graphs = [], []
        self.context = CudnnContext(self, device, self.new_graph)
        set_context(device, self.context)

    def backend_version(self):
        return self.version

    def new_graph(self, io, compute):
        self.graphs.append(Graph(self))
        return self.graphs[-1]
