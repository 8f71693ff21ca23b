"""The engines that cuDNN chooses for the graphs of the shipped models, kept as text: a file for each model in a folder
for each version of cuDNN. Planned for an H200 without a GPU, at the batch size of the benchmarks' table.

    python -m tests.cuda.offline.engines                writes the files of the cuDNN that is installed
    python -m tests.cuda.offline.engines alexnet gpt    only these models

A line is a graph: precision, kind, sizes, the engine with its knobs, the bytes of workspace, and how many kernels of
the plans for training and prediction run it. A change of an engine then shows as a difference in the repository.

What is known of the engines, from their knobs, cuDNN's notes and the names of the kernels that are compiled at run
time (an engine's number means another kernel for another kind of graph, type, and sometimes version):

* with TILE_CGA_M and TILE_CGA_N: for Hopper, in clusters of so many blocks. 16 bits: 62 forward, 41 with bias and ReLU,
  67 and 73 gradient of the input, 65 gradient of the weights; tf32: 67, 51, 71, 68.
* with STAGES and IDX_MODE: implicit products for Ampere. 22 forward and gradient of the input, 10 with bias and ReLU,
  9 gradient of the weights, which does not split its sum.
* with KBLOCK and STAGES: another family for Ampere; 45 and 57; with SPLIT_K, its sum is split: 49, 33, 34, 50.
* 7 of a matmul: compiled at run time for Ampere's instructions, whose sum may be split (SPLIT_K_SLC); 4, in 9.28: for
  Hopper's, which does not split.
* without tensor cores: 0, 1, 11, 20, 28 and the depthwise 16 (in 9.28 also 57 and 62 with SPLIT_K_SLC).
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import prototorch as pt
from prototorch.base.package_files import shipped_models
from prototorch.cuda import kernels as _all  # noqa: F401 - enters the kernels
from prototorch.cuda.backend import CudaBackend
from prototorch.cuda.cudnn.engine import Engine
from prototorch.cuda.cudnn.graph_desc import GraphDesc, TensorDesc
from prototorch.cuda.cudnn.graph_kernel import GraphKernel
from prototorch.cuda.cudnn.tensor_cores import needs_tensor_cores
from prototorch.cuda.dry_run_device import DryRunDevice
from prototorch.cuda.kernels.launch import use_device
from prototorch.engine.backends.core import Backend
from prototorch.runtime.variables import Variables
from prototorch.spec import Spec
from prototorch.train.plan_cache import PlanCache
from prototorch.train.step_inputs import PREDICT, TRAIN
from tests.cuda.offline.offline_cudnn import load_stub_driver, make_offline_device

FOLDER = Path(__file__).parent
BATCH = 256  # of the benchmarks' table
BATCHES = {"gpt2_small": 8}  # of texts of 1,024 tokens, for each of which it has 50,257 logits
LENGTH = 128  # of sequences whose length the model leaves open
PRECISIONS = ("bf16", "tf32")


@dataclass(frozen=True)
class PlannedGraph:
    """A graph of a model with its plan."""

    desc: GraphDesc
    engine: Engine
    workspace: int
    uses_tensor_cores: bool

    def __str__(self) -> str:
        sizes = " ".join(f"{name}={'x'.join(map(str, tensor.dims))}" for name, tensor in self.desc.tensors)
        attrs = "".join(f" {name}={_short(value)}" for name, value in self.desc.attrs if _is_stated(name, value))
        cores = "" if self.uses_tensor_cores else " WITHOUT TENSOR CORES"
        return f"{self.desc.kind} {sizes}{attrs} | {self.engine}{cores} | workspace {self.workspace}"


def _short(value: Any) -> str:
    return str(value).replace(" ", "")


def _is_stated(name: str, value: Any) -> bool:
    """Whether an attribute differs from the ordinary: no strides, no padding, no dilation."""
    ordinary = {"strides": 1, "dilation": 1, "pads": 0}
    if name in ordinary:
        return any(n != ordinary[name] for axis in value for n in (axis if isinstance(axis, tuple) else (axis,)))
    return value is not None and value is not False


def planned_graphs(model_name: str, precision: str, batch: int) -> Counter[PlannedGraph]:
    """The graphs of a shipped model's plans for training and prediction, with the number of kernels that run each."""
    model, backend = pt.load_model(model_name), CudaBackend(make_offline_device(precision))
    program = PlanCache(model.net, Variables(), backend, model.compile_block)
    specs = {i.name: Spec((batch, *(LENGTH if n is None else n for n in i.shape)), i.dtype) for i in model.net.inputs}
    phases = (TRAIN, PREDICT) if program.loss_terms else (PREDICT,)
    graphs: Counter[PlannedGraph] = Counter()
    for phase in phases:
        for step in program.plan(phase, specs, create=False).steps:
            ins, outs = tuple(v.spec for v in step.inputs), tuple(v.spec for v in step.outputs)
            with use_device(DryRunDevice(backend.device)):
                kernel = Backend.prepare(backend, step.node.op, ins, outs, step.node.attrs)
            plans = (graph_kernel.plan for graph_kernel in graph_kernels(kernel))
            graphs.update(PlannedGraph(p.desc, p.engine, p.workspace, p.uses_tensor_cores) for p in plans)
    return graphs


def graph_kernels(kernel: Any) -> list[GraphKernel]:
    """The cuDNN graphs that a kernel executes, each once."""
    kernels: list[GraphKernel] = []
    pending, seen = [kernel], set[int]()
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, GraphKernel):
            kernels.append(part)
        elif isinstance(part, list | tuple):
            pending += part
        elif isinstance(part, dict):
            pending += part.values()
        elif type(part).__module__.startswith("prototorch.cuda"):
            pending += vars(part).values() if hasattr(part, "__dict__") else ()
    return kernels


def cudnn_version() -> str:
    """The version of the cuDNN that is installed, such as "9.19"."""
    import cudnn

    number = int(cudnn.backend_version())
    return f"{number // 10000}.{number // 100 % 100}"


def path(model_name: str) -> Path:
    """Where the engines of a model are kept for this version of cuDNN."""
    return FOLDER / cudnn_version() / f"{model_name}.txt"


@dataclass(frozen=True)
class EngineLine:
    """A line of a file, as far as it is checked."""

    precision: str
    kind: str
    dims: dict[str, tuple[int, ...]]
    engine: str

    @property
    def needs_tensor_cores(self) -> bool:
        """See `tensor_cores.needs_tensor_cores`."""
        tensors = tuple((n, TensorDesc(d, d, "bfloat16")) for n, d in self.dims.items())
        return self.precision == "bf16" and needs_tensor_cores(GraphDesc(self.kind, tensors, ()))


def parse_line(line: str) -> EngineLine:
    """The line of a file."""
    graph, engine, _, _ = line.split(" | ")
    precision, kind, *tensors = graph.split()
    sizes = (t.split("=") for t in tensors if re.fullmatch(r"\w+=\d+(x\d+)+", t))
    return EngineLine(precision, kind, {n: tuple(map(int, d.split("x"))) for n, d in sizes}, engine)


def describe(model_name: str) -> str:
    """The text of a model's file."""
    lines = [
        f"{precision} {graph} | x{count}"
        for precision in PRECISIONS
        for graph, count in planned_graphs(model_name, precision, BATCHES.get(model_name, BATCH)).items()
    ]
    return "\n".join(sorted(lines)) + "\n"


def main(models: Sequence[str]) -> None:
    """Write the files."""
    with tempfile.TemporaryDirectory() as folder:
        load_stub_driver(Path(folder))
        for name in models or sorted(shipped_models()):
            target = path(name)
            target.parent.mkdir(exist_ok=True)
            target.write_text(describe(name), encoding="utf-8")
            print(target.relative_to(FOLDER), flush=True)
