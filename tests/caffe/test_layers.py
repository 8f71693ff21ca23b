"""Every layer case of real Caffe, forward and backward, in float32 and float64."""

from __future__ import annotations

import pytest

from prototorch.caffe import layer_type_list
from tests.caffe.golden import CASE_NAMES, Case, check_backward, check_forward, make_net

#: All types of layers of BVLC Caffe at 9b89154, OpenCV's included.
TYPES = set(
    """
    AbsVal Accuracy ArgMax BNLL BatchNorm BatchReindex Bias Clip Concat ContrastiveLoss Convolution Crop Data
    Deconvolution Dropout DummyData ELU Eltwise Embed EuclideanLoss Exp Filter Flatten HDF5Data HDF5Output HingeLoss
    Im2col ImageData InfogainLoss InnerProduct Input LRN LSTM LSTMUnit Log MVN MemoryData MultinomialLogisticLoss PReLU
    Parameter Pooling Power Python RNN ReLU Reduction Reshape SPP Scale Sigmoid SigmoidCrossEntropyLoss Silence Slice
    Softmax SoftmaxWithLoss Split Swish TanH Threshold Tile WindowData
    """.split()  # noqa: SIM905
)


def test_the_cases_are_there() -> None:
    assert len(CASE_NAMES) == 129


def test_every_type_has_a_translator() -> None:
    assert len(TYPES) == 61
    assert layer_type_list() == sorted(TYPES)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASE_NAMES)
def test_case(name: str, dtype: str) -> None:
    case = Case(name)
    net = make_net(case, dtype)
    check_forward(case, net, dtype)
    if case.meta["backward"]:
        check_backward(case, net, dtype)
