"""The engines that cuDNN gives to matrix products for an H200, and how many blocks they start: planned without a GPU.

Needs CuPy, cuDNN, its frontend, NVRTC and gcc: pytest -m cuda_offline.
"""

from __future__ import annotations

import importlib.util
import shutil

import numpy as np
import pytest

from prototorch.cuda import kernels as _all  # noqa: F401 - enters the kernels
from prototorch.cuda.backend import CudaBackend
from prototorch.cuda.cudnn.context import get_context
from prototorch.cuda.cudnn.matmul import matmul
from prototorch.cuda.cudnn.product_forms import MIN_SPLIT_ROWS, MatrixProduct, select_form
from prototorch.cuda.cudnn.split_k import MATMUL_TILES, MIN_SLICE_ROWS, count_tiles
from prototorch.cuda.cudnn.tensor_cores import MIN_FLOPS
from prototorch.cuda.kernels.launch import use_device
from prototorch.ops.operators import OPS
from prototorch.spec import Spec
from tests.cuda.offline.offline_cudnn import load_stub_driver, make_offline_device

MISSING = [n for n in ("cupy", "cudnn") if importlib.util.find_spec(n) is None]
pytestmark = [
    pytest.mark.cuda_offline,
    pytest.mark.skipif(bool(MISSING) or shutil.which("gcc") is None, reason=f"missing: {', '.join(MISSING) or 'gcc'}"),
]


@pytest.fixture(scope="module", autouse=True)
def _driver(tmp_path_factory):
    load_stub_driver(tmp_path_factory.mktemp("driver"))


def fills_half_of_the_gpu(desc, engine, multiprocessors):
    """Whether there are blocks for half of the multiprocessors, or as many as slices of the least size make."""
    tiles = count_tiles(desc, MATMUL_TILES[engine.knob("KERNEL_CFG")])
    rows = desc.tensor("a").dims[-1]
    return tiles * engine.slices * 2 > multiprocessors or engine.slices * 2 > rows // MIN_SLICE_ROWS


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", "bfloat16"), ("fp16", "float16"), ("tf32", "float32")])
@pytest.mark.parametrize("columns", [(256, 256), (1024, 256)])
def test_weight_gradients_of_the_transformer_fill_the_gpu(columns, precision, dtype):
    """As gradients of a convolution's weights they had 4 to 16 blocks on 132 multiprocessors."""
    device, rows = make_offline_device(precision), 32768
    ins, outs = tuple(Spec((rows, n), dtype) for n in columns), (Spec(columns, dtype),)
    with use_device(device):
        kernel = matmul(ins, outs, {"transpose_a": True})
    assert kernel.plan.desc.kind == "matmul"
    engine = kernel.plan.engine
    assert engine.slices * count_tiles(kernel.plan.desc, MATMUL_TILES[engine.knob("KERNEL_CFG")]) > 66
    assert kernel.plan.workspace <= 64 << 20


def random_shapes():
    rng = np.random.default_rng(0)
    for _ in range(12):
        m, n = (int(8 * rng.integers(1, 64)) for _ in range(2))
        k = int(2 ** rng.uniform(11, 17))
        yield m, k, n


def test_weight_gradients_of_random_shapes_fill_the_gpu():
    device = make_offline_device("bf16")  # the context does not keep it alive
    context = get_context(device)
    split = 0
    for m, k, n in random_shapes():
        product = MatrixProduct("conv_weight_grad", m, k, n, "bfloat16")
        if product.flops < MIN_FLOPS or product.tiles * 2 >= context.multiprocessors or k < MIN_SPLIT_ROWS:
            continue
        split += 1
        desc, _ = select_form(product, context)
        assert desc.kind == "matmul", product
        assert fills_half_of_the_gpu(desc, context.get_plan(desc).engine, context.multiprocessors), product
    assert split > 6


@pytest.mark.parametrize("kind", ["conv", "conv_input_grad"])
@pytest.mark.parametrize(
    "shape", [(32768, 256, 256), (32768, 256, 1024), (4096, 256, 1024), (2048, 3072, 768), (256, 9216, 4096)]
)
def test_large_products_run_in_clusters(shape, kind):
    """As images of one pixel's width, 256 x 256 over 32,768 rows is given an engine for Ampere by cuDNN 9.19."""
    device = make_offline_device("bf16")  # the context does not keep it alive
    context = get_context(device)
    desc, _ = select_form(MatrixProduct(kind, *shape, "bfloat16"), context)
    assert context.get_plan(desc).engine.has_clusters


def test_split_products_exist_where_results_must_not_depend_on_threads():
    device = make_offline_device("bf16", deterministic=True)
    context = get_context(device)
    desc, _ = select_form(MatrixProduct("conv_weight_grad", 256, 32768, 256, "bfloat16"), context)
    assert context.get_plan(desc).engine.slices > 1


def test_strict_float32_runs_without_tensor_cores():
    backend = CudaBackend(make_offline_device("fp32"))
    a, b = Spec((32768, 256), "float32"), Spec((32768, 256), "float32")
    choice = backend.choose_kernel(OPS["matmul"], (a, b), (Spec((256, 256), "float32"),), {"transpose_a": True})
    assert choice.family == "cudnn"


def test_the_cast_of_a_weight_gradient_to_float32_is_part_of_the_product():
    """As a step of its own, before clipping, it was one launch more and a sweep over the gradient."""
    backend = CudaBackend(make_offline_device("bf16"))
    a, b = Spec((4096, 512), "bfloat16"), Spec((4096, 256), "bfloat16")
    program = (
        ("matmul", (("in", 0), ("in", 1)), (("transpose_a", True),)),
        ("cast", (("node", 0, 0),), (("dtype", "float32"),)),
    )
    attrs = {"program": program, "outputs": (("node", 1, 0),), "inplace": ()}
    with use_device(backend.device):
        kernel = backend.prepare(OPS["fused"], (a, b), (Spec((512, 256), "float32"),), attrs).kernel
    assert kernel.plan.desc.tensor("y").dtype == "float32"
    assert kernel.after is None
