"""The pipeline: the passes that compile a recorded graph, in their order, each with the reason why it stands there.

`run_pipeline` removes dead nodes after each pass that has changed the graph. With ``PROTOTORCH_VERIFY=1`` in the
environment (and in the tests of the passes) it verifies the graph after each pass; see `prototorch.graph.verify`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from prototorch.graph.ir import Graph
from prototorch.graph.passes.batch_tiling import tile_batch
from prototorch.graph.passes.constant_folding import fold_constants
from prototorch.graph.passes.context import Pass, PassContext
from prototorch.graph.passes.cse import eliminate_common_subexpressions
from prototorch.graph.passes.dead_code import eliminate_dead_code
from prototorch.graph.passes.decomposition import decompose_ops
from prototorch.graph.passes.defer_state_updates import defer_state_updates
from prototorch.graph.passes.fold_batch_norm import fold_batch_norm
from prototorch.graph.passes.fold_casts import fold_gradient_casts, group_weight_casts
from prototorch.graph.passes.fold_scale_shift import fold_scale_shift
from prototorch.graph.passes.fuse_norm_activation_gradient import fuse_norm_activation_gradient
from prototorch.graph.passes.fusion import fuse_ops
from prototorch.graph.passes.ghost_norm import use_ghost_norm
from prototorch.graph.passes.group_sums import group_sums
from prototorch.graph.passes.guard_values import guard_values
from prototorch.graph.passes.hoist_activation_gradient import hoist_activation_gradient
from prototorch.graph.passes.hoist_crops import hoist_crops
from prototorch.graph.passes.layout_assignment import assign_layouts
from prototorch.graph.passes.prepack import prepack_weights
from prototorch.graph.passes.rematerialization import rematerialize
from prototorch.graph.passes.runtime_constant_folding import mark_setup_nodes
from prototorch.graph.passes.save_attention_stats import save_attention_stats
from prototorch.graph.passes.save_gates import save_gates
from prototorch.graph.passes.sink_transposes import sink_transposes
from prototorch.graph.verify import verify

__all__ = ["PIPELINE", "PassRecord", "PipelineStep", "observe_passes", "run_pipeline"]

#: this variable of the environment, set to 1, has every graph verified after each pass
ENV_VERIFY = "PROTOTORCH_VERIFY"


def _always(context: PassContext) -> bool:
    return True


def _has_backend(context: PassContext) -> bool:
    return context.backend is not None


def _can_fuse(context: PassContext) -> bool:
    return context.backend is not None and context.backend.can_fuse


def _has_memory(context: PassContext) -> bool:
    return _can_fuse(context) and not context.low_memory


def _has_low_memory(context: PassContext) -> bool:
    return context.low_memory


@dataclass(frozen=True)
class PipelineStep:
    """A pass, why it stands where it stands, and for which contexts it runs."""

    run: Pass
    reason: str
    condition: Callable[[PassContext], bool]

    @property
    def name(self) -> str:
        """The name of the pass: that of its function."""
        return self.run.__name__


PIPELINE = tuple(
    PipelineStep(*step)
    for step in (
        (guard_values, "first: it reads the bounds of the ops as they are recorded", _always),
        (sink_transposes, "after the bounds: all other passes then see layers of either data_format alike", _always),
        (fold_scale_shift, "on the ops as the layers record them: a normalization and a Scale become one", _can_fuse),
        (decompose_ops, "next, so that every other pass sees the ops that run", _has_backend),
        (eliminate_common_subexpressions, "gradients repeat what the forward pass has computed", _always),
        (fold_constants, "small constants that layers and gradients compute need no step", _always),
        (hoist_crops, "elementwise ops on images then run on fewer pixels, and a crop reads bytes", _can_fuse),
        (fold_batch_norm, "a prediction's normalization becomes a bias of its convolution", _can_fuse),
        (hoist_activation_gradient, "derivatives are applied while gradients are small, before fusion", _can_fuse),
        (use_ghost_norm, "clipping by norm must not force large gradients into memory", _can_fuse),
        (save_gates, "the backward pass of a recurrent layer need not compute its gates again", _can_fuse),
        (save_attention_stats, "the gradient of attention need not compute its softmax's sums again", _can_fuse),
        (fold_gradient_casts, "updates read low-precision gradients without a float32 copy", _can_fuse),
        (
            fuse_norm_activation_gradient,
            "one kernel for both gradients, before elementwise fusion takes one",
            _can_fuse,
        ),
        (defer_state_updates, "state changes after the guard may be in place", _always),
        (assign_layouts, "before fusion: the ops of a group share one layout", _can_fuse),
        (mark_setup_nodes, "before fusion: a group lies within one phase", _can_fuse),
        (group_weight_casts, "one sweep casts all weights that the forward pass reads", _can_fuse),
        (group_sums, "one sweep over all gradients, before fusion takes the squares", _can_fuse),
        (fuse_ops, "elementwise ops run in the sweep of what they follow; sorts the nodes by phase", _can_fuse),
        (tile_batch, "after fusion: whole groups run slice by slice while data are in a cache", _has_memory),
        (prepack_weights, "last of what picks kernels: asks them for the order of their operands", _has_memory),
        (rematerialize, "after fusion: a group is computed again by the kernel that computed it", _has_low_memory),
    )
)


@dataclass(frozen=True)
class PassRecord:
    """What a pass did: its name, whether it changed the graph, the number of nodes before and after, seconds."""

    name: str
    changed: bool
    nodes_before: int
    nodes_after: int
    seconds: float


Observer = Callable[[PassRecord, Graph], None]

_observer: ContextVar[Observer | None] = ContextVar("prototorch_pass_observer", default=None)


@contextmanager
def observe_passes(observer: Observer) -> Iterator[None]:
    """Call the observer after each pass of the pipelines that run inside, with its record and the graph."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


def run_pipeline(graph: Graph, context: PassContext) -> None:
    """Run the passes whose condition holds over a graph. Raises VerificationError where a graph is verified and a pass
    has broken a rule."""
    observer = _observer.get()
    verifying = os.environ.get(ENV_VERIFY) == "1"
    eliminate_dead_code(graph, context)
    if verifying:
        verify(graph, "the recorded graph")
    for step in PIPELINE:
        if not step.condition(context):
            continue
        before, begin = graph.num_nodes, time.perf_counter()
        changed = step.run(graph, context)
        if changed:
            eliminate_dead_code(graph, context)
        if observer is not None:
            seconds = time.perf_counter() - begin
            observer(PassRecord(step.name, changed, before, graph.num_nodes, seconds), graph)
        if verifying:
            verify(graph, step.name)
