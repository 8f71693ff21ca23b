"""The choice among the forms of a matrix product, with made-up rankings of engines: cuDNN is not needed."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from prototorch.cuda.cudnn.engine import parse_engine
from prototorch.cuda.cudnn.product_forms import MatrixProduct, select_form
from prototorch.cuda.cudnn.split_k import count_slices, select_split_k_plan

CLUSTER, OLDER = "eng62_k2=0_k27=1_k28=2", "eng22_k2=8_k14=4"
WEIGHT_GRAD = MatrixProduct("conv_weight_grad", 256, 32768, 256, "bfloat16")
FORWARD = MatrixProduct("conv", 32768, 256, 256, "bfloat16")


class Ranking:
    """A graph of cuDNN with its ranking; plans can be appended."""

    def __init__(self, *names):
        self.names = list(names)

    def get_execution_plan_count(self):
        return len(self.names)

    def get_plan_name_at_index(self, index):
        return self.names[index]

    def create_execution_plan(self, engine, knobs):
        self.names.append("_".join([f"eng{engine}", *(f"k{k}={v}" for k, v in sorted(knobs.items()))]))


MODULE = SimpleNamespace(knob_type=SimpleNamespace(KERNEL_CFG=24, SPLIT_K_SLC=17))


class Context:
    """Plans by a function from a description to the name of its engine; None: cuDNN refuses the graph."""

    multiprocessors = 132

    def __init__(self, name_of):
        self.name_of = name_of

    def get_plan(self, desc, may_measure):
        assert not may_measure
        name = self.name_of(desc)
        return None if name is None else SimpleNamespace(heuristic_engine=parse_engine(name))


def width(desc):
    return desc.tensor("x").dims[2]


def test_names_of_engines():
    engine = parse_engine("eng7_k17=33_k24=3")
    assert (engine.number, engine.slices, engine.knob("KERNEL_CFG"), engine.has_clusters) == (7, 33, 3, False)
    assert str(engine) == "engine 7 SPLIT_K_SLC=33 KERNEL_CFG=3"
    assert parse_engine(CLUSTER).has_clusters
    assert parse_engine("eng65_k17=-1").slices == 1, "-1 is cuDNN's 'not set'"
    assert str(parse_engine("a kernel of the frontend")) == "a kernel of the frontend"


@pytest.mark.parametrize("kind", ["conv", "conv_input_grad", "conv_weight_grad"])
@pytest.mark.parametrize("columns", [1, 32, 128])
def test_forms_describe_the_same_memory(kind, columns):
    """Each tensor of a form, read by its strides, is the matrix row by row."""
    desc = MatrixProduct(kind, 256, 128, 384, "float32").as_conv(columns)
    for _, tensor in desc.tensors:
        n, c, h, w = tensor.dims
        flat = np.arange(tensor.size)
        assert tensor.size == n * c * h * w
        image = np.lib.stride_tricks.as_strided(flat, tensor.dims, [s * flat.itemsize for s in tensor.strides])
        matrix = np.moveaxis(image, 1, -1).reshape(-1, c)
        np.testing.assert_array_equal(matrix, flat.reshape(-1, c))


def test_a_weight_gradient_of_many_rows_is_split():
    desc, operands = select_form(WEIGHT_GRAD, Context(lambda d: "eng7_k17=33_k24=3" if d.kind == "matmul" else OLDER))
    assert (desc.kind, dict(desc.attrs), operands) == ("matmul", {"blocks": 132}, ("a", "b", "y"))


@pytest.mark.parametrize("refused", [None, "eng7"])
def test_without_an_engine_that_splits_it_is_a_convolution(refused):
    desc, operands = select_form(WEIGHT_GRAD, Context(lambda d: refused if d.kind == "matmul" else OLDER))
    assert (desc.kind, operands) == ("conv_weight_grad", ("g", "x", "dw"))


def test_the_form_whose_engine_runs_in_clusters():
    desc, _ = select_form(FORWARD, Context(lambda d: CLUSTER if width(d) == 64 else OLDER))
    assert width(desc) == 64


def test_on_older_gpus_the_first_form():
    desc, _ = select_form(FORWARD, Context(lambda d: OLDER))
    assert width(desc) == 1


def test_small_products_are_left_to_cudnn():
    small = MatrixProduct("conv", 32, 500, 10, "bfloat16")
    asked = []
    desc, _ = select_form(small, Context(lambda d: asked.append(d) or OLDER))
    assert (width(desc), len(asked)) == (1, 1)


def test_a_product_that_cudnn_refuses_in_every_form():
    assert select_form(FORWARD, Context(lambda d: None)) is None


def test_a_ranking_that_fills_the_gpu_is_used():
    graph = Ranking("eng4_k24=3", "eng7_k17=33_k24=3")
    assert select_split_k_plan(MODULE, graph, WEIGHT_GRAD.as_split_matmul(132)) == 1


def test_more_slices_where_the_ranking_has_few():
    """cuDNN 9.28 ranks 4 slices first: 16 blocks."""
    graph = Ranking("eng7_k17=4_k24=3", "eng7_k17=9_k24=1", "eng7")
    assert select_split_k_plan(MODULE, graph, WEIGHT_GRAD.as_split_matmul(132)) == 3
    assert graph.names[3] == "eng7_k17=33_k24=3"


@pytest.mark.parametrize("names", [["eng7"], ["eng7_k17=4_k24=99"], []])
def test_rankings_without_a_known_kernel_that_splits(names):
    assert select_split_k_plan(MODULE, Ranking(*names), WEIGHT_GRAD.as_split_matmul(132)) is None


def test_other_graphs_are_cudnns_choice():
    assert select_split_k_plan(MODULE, Ranking("eng7_k17=4_k24=3"), FORWARD.as_conv()) is None


def test_slices_have_enough_rows():
    desc = MatrixProduct("conv_weight_grad", 64, 1024, 64, "bfloat16").as_split_matmul(132)
    assert count_slices(desc, (64, 64), 132) == 4
