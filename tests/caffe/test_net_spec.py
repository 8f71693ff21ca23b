"""NetSpec writes what pycaffe writes; what it writes is read and runs."""

from __future__ import annotations

import pytest

from prototorch.caffe.net_spec import Function, NetSpec, to_proto
from prototorch.caffe.net_spec import layers as L
from prototorch.caffe.net_spec import params as P
from prototorch.caffe.proto import caffe_pb2, text_format
from prototorch.errors import UsageError
from tests.caffe.layer_runner import translate

LENET = """
layer { name: "data" type: "DummyData" top: "data" top: "label"
        dummy_data_param { shape { dim: 2 dim: 1 dim: 8 dim: 8 } shape { dim: 2 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" param { lr_mult: 1 } param { lr_mult: 2 }
        convolution_param { num_output: 3 kernel_size: 5 weight_filler { type: "xavier" } } }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
        pooling_param { pool: AVE kernel_size: 2 stride: 2 } }
layer { name: "ip/1" type: "InnerProduct" bottom: "pool1" top: "ip/1" inner_product_param { num_output: 4 } }
layer { name: "relu1" type: "ReLU" bottom: "ip/1" top: "ip/1" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip/1" bottom: "label" top: "loss" loss_weight: 2
        propagate_down: true propagate_down: false include { phase: TRAIN } }
"""


def lenet():
    n = NetSpec()
    n.data, n.label = L.DummyData(shape=[{"dim": [2, 1, 8, 8]}, {"dim": 2}], ntop=2)
    n.conv1 = L.Convolution(
        n.data, kernel_size=5, num_output=3, weight_filler={"type": "xavier"}, param=[{"lr_mult": 1}, {"lr_mult": 2}]
    )
    n.pool1 = L.Pooling(n.conv1, kernel_size=2, stride=2, pool=P.Pooling.AVE)
    n["ip/1"] = L.InnerProduct(n.pool1, num_output=4)
    n.relu1 = L.ReLU(n["ip/1"], in_place=True)
    n.loss = L.SoftmaxWithLoss(n.relu1, n.label, loss_weight=2, propagate_down=[True, False], include={"phase": 0})
    return n


def test_a_net_spec_writes_the_layers_with_the_given_names():
    expected = text_format.Merge(LENET, caffe_pb2.NetParameter())
    assert str(lenet().to_proto()) == str(expected)


def test_tops_without_a_name_get_type_and_number_in_the_order_of_the_layers():
    data, label = L.DummyData(shape=[{"dim": [2, 6]}], ntop=2)
    ip = L.InnerProduct(data, num_output=5)
    a, b = L.Slice(ip, slice_point=[3], ntop=2)
    top = L.Concat(L.ReLU(a, in_place=True), L.TanH(b), L.TanH(a))
    net = to_proto(top, label)
    assert [layer.name for layer in net.layer] == [
        "DummyData1", "InnerProduct1", "Slice1", "ReLU1", "TanH1", "TanH2", "Concat1",
    ]  # fmt: skip
    assert [list(layer.top) for layer in net.layer[:4]] == [
        ["DummyData1", "DummyData2"], ["InnerProduct1"], ["Slice1", "Slice2"], ["Slice1"],
    ]  # fmt: skip
    assert list(net.layer[6].bottom) == ["Slice1", "TanH1", "TanH2"]
    assert str(top.to_proto()) == str(to_proto(top))


def test_a_layer_without_tops_is_a_function_that_the_net_holds():
    n = NetSpec()
    n.data, n.data2 = L.DummyData(shape={"dim": 3}, ntop=2)
    n.silence = L.Silence(n.data, ntop=0)
    assert isinstance(n.silence, Function)
    n.other = L.Silence(n.data2, ntop=0)
    net = n.to_proto()
    assert [(layer.name, list(layer.bottom), list(layer.top)) for layer in net.layer[1:]] == [
        ("silence", ["data"], []),
        ("other", ["data2"], []),
    ]


def test_what_is_written_is_read_and_translated():
    net = translate(str(lenet().to_proto()), {"data": (2, 1, 8, 8), "label": (2,)})
    assert net.shapes[net.blobs["ip/1"]] == (2, 4)
    assert net.layers[-1].loss_weights == (2.0,)


def test_a_net_of_many_layers_is_written():
    top = L.Input(shape={"dim": [1]})
    for _ in range(3000):
        top = L.ReLU(top)
    assert len(to_proto(top).layer) == 3001


@pytest.mark.parametrize(("script", "error", "expected"), [
    (lambda n: L.ReLU("data"), TypeError, "ReLU: input 0 must be the top of a layer, not str"),
    (lambda n: to_proto(L.Convolution(n.x, kernal_size=3)), UsageError, "no field 'kernal_size'.*kernel_size"),
    (lambda n: to_proto(L.Convolution(n.x, weight_filler={"typ": "x"})), UsageError, "no field 'typ'"),
    (lambda n: n.y, AttributeError, "no top 'y'"),
    (lambda n: P.Poling.MAX, AttributeError, "Poling.*Pooling"),
    (lambda n: P.Pooling.MAXX, AttributeError, "MAXX"),
])  # fmt: skip
def test_mistakes_are_named(script, error, expected):
    n = NetSpec()
    n.x = L.Input(shape={"dim": [1, 2]})
    with pytest.raises(error, match=expected):
        script(n)
