"""Every graph that the shipped models lead to is accepted by cuDNN for an H200, in each precision, without a GPU.

Needs CuPy, cuDNN, its frontend, NVRTC and gcc: pytest -m cuda_offline.
"""

from __future__ import annotations

import importlib.util
import logging
import shutil
from collections import Counter

import pytest

import prototorch as pt
from prototorch.base.package_files import shipped_models
from prototorch.cuda import kernels as _all  # noqa: F401 - enters the kernels
from prototorch.cuda.backend import CudaBackend
from prototorch.cuda.cudnn import planning_log
from prototorch.cuda.cudnn.context import get_context
from prototorch.cuda.cudnn.execution_plan import UnsupportedGraphError
from prototorch.ops.operators import OPS
from prototorch.runtime.variables import Variables
from prototorch.spec import Spec
from prototorch.train.plan_cache import PlanCache
from prototorch.train.step_inputs import PREDICT, TRAIN
from tests.cuda.offline.offline_cudnn import load_stub_driver, make_offline_device

MISSING = [n for n in ("cupy", "cudnn") if importlib.util.find_spec(n) is None]
pytestmark = [
    pytest.mark.cuda_offline,
    pytest.mark.skipif(bool(MISSING) or shutil.which("gcc") is None, reason=f"missing: {', '.join(MISSING) or 'gcc'}"),
]
BATCH = 32
LENGTH = 16  # for sizes that only data tell
#: ops of the shipped models that have no kernel of their own on a GPU; their reference implementations run, slowly
PLAIN: set[str] = set()


@pytest.fixture(scope="module", autouse=True)
def _driver(tmp_path_factory):
    load_stub_driver(tmp_path_factory.mktemp("driver"))


def plans(name: str, device) -> list:
    """The plans of a shipped model for training and for prediction."""
    model = pt.load_model(name)
    program = PlanCache(model.net, Variables(), CudaBackend(device), model.compile_block)
    specs = {i.name: Spec((BATCH, *(LENGTH if n is None else n for n in i.shape)), i.dtype) for i in model.net.inputs}
    phases = (TRAIN, PREDICT) if program.loss_terms else (PREDICT,)
    return [program.plan(phase, specs, create=False) for phase in phases]


def plain_ops(plans, backend) -> set[str]:
    """The ops of steps that no kernel takes."""
    found = set()
    for plan in plans:
        for step in plan.steps:
            ins, outs = tuple(v.spec for v in step.inputs), tuple(v.spec for v in step.outputs)
            if backend.choose_kernel(step.node.op, ins, outs, step.node.attrs).level == "plain":
                found.add(step.node.op.name)
    return found


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
@pytest.mark.parametrize("name", sorted(shipped_models()))
def test_every_graph_is_accepted(name, precision, caplog, monkeypatch):
    monkeypatch.setattr(planning_log, "_warned", set())
    device = make_offline_device(precision)
    plain = plain_ops(plans(name, device), CudaBackend(device))
    library = get_context(device)
    # a product in strict float32 may be refused: then the kernel of our own takes it
    refused = [k for k, v in library.plans.items() if isinstance(v, UnsupportedGraphError) and k[0].kind != "matmul"]
    assert refused == []
    assert plain <= PLAIN
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


def test_deterministic_plans_exist():
    device = make_offline_device("bf16", deterministic=True)
    plain_ops(plans("alexnet", device), CudaBackend(device))
    assert not [v for v in get_context(device).plans.values() if isinstance(v, UnsupportedGraphError)]


def attention_families(dtype, queries, keys, mask, causal):
    """The families of the kernels of attention and its gradients, for two heads of 32."""
    backend = CudaBackend(make_offline_device("bf16" if dtype == "bfloat16" else "fp16"))
    q, k = Spec((4, queries, 2, 32), dtype), Spec((4, keys, 2, 32), dtype)
    ins, saved = (q, k, k, *([] if mask is None else [Spec(mask, "bool")])), (q, Spec((4, 2, queries)))
    attrs = {"causal": causal, "scale": None}
    applications = [
        ("attention_heads", ins, (q,)),
        ("attention_heads_grad", (q, *ins), (q, k, k)),
        ("attention_heads_with_stats", ins, saved),
        ("attention_heads_with_stats_grad", (q, *ins, *saved), (q, k, k)),
    ]
    return {backend.choose_kernel(OPS[name], inputs, outs, attrs).family for name, inputs, outs in applications}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("mask", [None, (4, 1, 1, 24), (4, 2, 24, 24), (24, 24)])
@pytest.mark.parametrize("causal", [False, True])
def test_fused_attention_is_accepted(dtype, mask, causal):
    assert attention_families(dtype, 24, 24, mask, causal) == {"cudnn"}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(("queries", "keys"), [(24, 48), (1, 40), (130, 257)])
@pytest.mark.parametrize("causal", [False, True])
def test_fused_attention_of_fewer_queries_than_keys_is_accepted(dtype, queries, keys, causal):
    assert attention_families(dtype, queries, keys, None, causal) == {"cudnn"}


def test_queries_that_see_no_key_are_left_to_products():
    """For them cuDNN returns zeros, and the op the mean of the values."""
    assert "cudnn" not in attention_families("bfloat16", 48, 24, None, causal=True)


#: the layers of attention of each shipped model that has any: the table of docs/gpu.md
ATTENTION_LAYERS = {"gpt": 3, "transformer": 4, "vit": 4, "seq2seq": 1}


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("name", ATTENTION_LAYERS)
def test_a_training_step_runs_the_forward_engine_of_attention_once(name, precision):
    device = make_offline_device(precision)
    train, predict = ([step.node.op.name for step in plan.steps] for plan in plans(name, device))
    layers = ATTENTION_LAYERS[name]
    assert Counter(op for op in train if op.startswith("attention")) == {
        "attention_heads_with_stats": layers,
        "attention_heads_with_stats_grad": layers,
    }
    assert Counter(op for op in predict if op.startswith("attention")) == {"attention_heads": layers}


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
@pytest.mark.parametrize("name", ATTENTION_LAYERS)
def test_attention_in_float32_is_products_by_design(name, precision, caplog):
    device = make_offline_device(precision)
    for plan in plans(name, device):
        ops = [step.node.op.name for step in plan.steps if step.node.op.name.startswith("attention")]
        assert ops == ["attention_weights"] * ATTENTION_LAYERS[name]
    assert not [key for key in get_context(device).plans if key[0].kind.startswith("sdpa")]
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


CONVOLUTIONS = [
    ((2, 6, 20), (8, 3, 5), {"strides": (2,), "pads": ((1, 2),), "dilation": (1,), "groups": 2}),
    ((2, 8, 12, 12), (8, 1, 3, 3), {"strides": (1, 1), "pads": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 8}),
    ((2, 4, 14, 15), (6, 4, 3, 2), {"strides": (2, 1), "pads": ((0, 1), (1, 0)), "dilation": (2, 3), "groups": 1}),
    ((2, 4, 6, 7, 8), (6, 4, 3, 3, 3),
     {"strides": (1, 2, 1), "pads": ((1, 1),) * 3, "dilation": (1, 1, 1), "groups": 1}),
]  # fmt: skip


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
@pytest.mark.parametrize("layout", [None, "channels_last"])
@pytest.mark.parametrize(("x", "w", "attrs"), CONVOLUTIONS)
def test_convolutions_of_every_kind_are_accepted(x, w, attrs, layout, precision):
    backend = CudaBackend(make_offline_device(precision))
    dtype = "bfloat16" if precision == "bf16" else "float32"
    xs, ws = Spec(x, dtype, layout), Spec(w, dtype)
    y = Spec(OPS["conv"].infer_spec(xs, ws, **attrs).shape, dtype, layout)
    assert backend.choose_kernel(OPS["conv"], (xs, ws), (y,), attrs).family == "cudnn"
    more = {**attrs, "size": x[2:]}
    assert backend.choose_kernel(OPS["conv_input_grad"], (y, ws), (xs,), more).family == "cudnn"
    more = {**attrs, "kernel": w[2:]}
    assert backend.choose_kernel(OPS["conv_weight_grad"], (xs, y), (ws,), more).family == "cudnn"
