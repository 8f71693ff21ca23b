"""`caffe_pb2`: the same script on protobuf's own classes gives the same texts and bytes."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from prototorch.caffe.interop.wire import ProtobufError
from prototorch.caffe.proto import caffe_pb2, text_format
from prototorch.errors import TextError

oracle = pytest.importorskip("tests.caffe.interop.protobuf_oracle")


def _make_net(make, pb):
    net = make("NetParameter")
    net.name = 'n\u00e9t "quoted" \\ x'
    net.force_backward = True
    net.input.extend(["a", "b"])
    net.input_dim.append(3)
    net.state.phase = 1
    net.state.stage[:] = ["deploy"]
    layer = net.layer.add()
    layer.name, layer.type = "conv", "Convolution"
    layer.bottom.append("data")
    layer.top.extend(["conv"])
    layer.convolution_param.num_output = 96
    layer.convolution_param.kernel_size.extend([3, 5])
    layer.convolution_param.weight_filler.type = "xavier"
    layer.convolution_param.bias_filler.value = 0.1
    layer.param.add(name="w", lr_mult=1, decay_mult=0.5)
    layer.param.add().lr_mult = 1e-12
    layer.loss_weight.extend([0.25, 1e20, 3.0, float("inf")])
    other = net.layer.add()
    other.CopyFrom(layer)
    other.pooling_param.pool = 1
    other.include.add(phase=0, stage=["x"])
    other.ClearField("loss_weight")
    other.param[0].ClearField("lr_mult")
    other.transform_param.mean_value.extend([104, 117.0, 123.68])
    other.dropout_param.SetInParent()
    blob = other.blobs.add()
    blob.shape.dim.extend([2, 2])
    blob.data.extend([1.5, 2.25, -3, 1e-7])
    blob.data[1] = 7
    del blob.data[2]
    net.layer.extend([layer])
    net.layer[2].name = "third"
    net.layer[2].bottom[0] = "conv"
    net.layer[2].bottom.insert(0, "first")
    return net


def _make_solver(make, pb):
    solver = make("SolverParameter")
    solver.base_lr, solver.gamma, solver.random_seed = 0.01, 0.1, -1
    solver.solver_mode = 0
    solver.test_iter.append(100)
    solver.test_net_param.add().name = "t"
    solver.train_net_param.MergeFrom(solver.test_net_param[0])
    solver.train_state.level = -2
    solver.stepvalue.extend(range(3))
    return solver


def _make_datum(make, pb):
    datum = make("Datum")
    datum.channels, datum.label, datum.data = 3, -7, bytes(range(256))
    datum.float_data.extend(np.arange(4.0) / 3)
    datum.encoded = True
    return datum


def _make_merged(make, pb):
    net = _make_net(make, pb)
    more = make("NetParameter")
    more.name = "other"
    more.layer.add().name = "x"
    more.state.level = 4
    net.MergeFrom(more)
    net.MergeFromString(more.SerializeToString())
    return net


SCRIPTS = (_make_net, _make_solver, _make_datum, _make_merged)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_gives_protobufs_text_and_bytes(script):
    ours = script(lambda name: getattr(caffe_pb2, name)(), caffe_pb2)
    theirs = script(oracle.protobuf_message, None)
    assert ours.SerializeToString() == theirs.SerializeToString()
    assert ours.ByteSize() == theirs.ByteSize()
    assert [field.name for field, _ in ours.ListFields()] == [field.name for field, _ in theirs.ListFields()]
    if script is not _make_datum:  # its bytes have other escapes, its floats more digits than they need
        assert str(ours).split("\n") == str(theirs).split("\n")
    assert oracle.parse_text(str(ours), theirs) == theirs
    again = type(ours).FromString(theirs.SerializeToString())
    assert again == ours
    assert copy.deepcopy(ours) == ours
    assert str(again) == str(ours)


def test_what_a_text_holds_is_read_and_written():
    net = text_format.Merge('name: "n" layer { type: "ReLU" include { phase: TEST } }', caffe_pb2.NetParameter())
    assert (net.layer[0].type, net.layer[0].include[0].phase) == ("ReLU", caffe_pb2.TEST)
    assert text_format.Parse(text_format.MessageToString(net), caffe_pb2.NetParameter()) == net
    with pytest.raises(text_format.ParseError, match="laier"):
        text_format.Merge("laier { }", net)
    assert text_format.ParseError is TextError


def test_reading_a_message_does_not_set_it_and_writing_does():
    layer = caffe_pb2.LayerParameter()
    filler = layer.convolution_param.weight_filler
    assert filler.type == "constant"
    assert not layer.HasField("convolution_param")
    filler.std = 2
    assert layer.HasField("convolution_param")
    assert layer.convolution_param.weight_filler.std == 2
    assert layer.convolution_param.HasField("weight_filler")
    layer.ClearField("convolution_param")
    assert layer.convolution_param.weight_filler.std == 1
    assert str(layer) == ""


def test_enums_have_numbers_and_names():
    assert (caffe_pb2.TRAIN, caffe_pb2.TEST) == (0, 1)
    assert caffe_pb2.PoolingParameter.AVE == 1
    assert caffe_pb2.PoolingParameter.PoolMethod.Name(1) == "AVE"
    assert caffe_pb2.PoolingParameter.PoolMethod.Value("STOCHASTIC") == 2
    assert caffe_pb2.Phase.items() == [("TRAIN", 0), ("TEST", 1)]
    method = caffe_pb2.PoolingParameter.PoolMethod.DESCRIPTOR
    assert {v.number: k for k, v in method.values_by_name.items()} == {0: "MAX", 1: "AVE", 2: "STOCHASTIC"}
    assert "convolution_param" in [f.name for f in caffe_pb2.LayerParameter.DESCRIPTOR.fields]
    assert caffe_pb2.NetParameter.LAYER_FIELD_NUMBER == 100


@pytest.mark.parametrize(("script", "error"), [
    (lambda n: setattr(n, "nam", "x"), AttributeError),
    (lambda n: setattr(n, "name", 3), TypeError),
    (lambda n: setattr(n, "force_backward", "yes"), TypeError),
    (lambda n: setattr(n, "state", caffe_pb2.NetState()), AttributeError),
    (lambda n: setattr(n.state, "level", 1 << 31), ValueError),
    (lambda n: setattr(n.state, "level", 1.5), TypeError),
    (lambda n: setattr(n.state, "phase", 7), ValueError),
    (lambda n: setattr(n.state, "phase", "TRIAN"), ValueError),
    (lambda n: n.input_dim.append("3"), TypeError),
    (lambda n: n.layer.extend([caffe_pb2.NetState()]), TypeError),
    (lambda n: n.CopyFrom(caffe_pb2.NetState()), TypeError),
    (lambda n: n.HasField("layer"), ValueError),
    (lambda n: n.ClearField("lay"), ValueError),
    (lambda n: n.ParseFromString(b"\xff\xff"), ProtobufError),
    (lambda n: caffe_pb2.NetParam, AttributeError),
])  # fmt: skip
def test_mistakes_raise_what_protobuf_raises(script, error):
    with pytest.raises(error):
        script(caffe_pb2.NetParameter())


def test_a_message_that_lacks_a_required_field_is_not_written():
    layer = caffe_pb2.LayerParameter()
    layer.clip_param.min = 1
    assert not layer.IsInitialized()
    with pytest.raises(ProtobufError, match="max"):
        layer.SerializeToString()
    layer.clip_param.max = 2
    assert layer.IsInitialized()


def test_the_data_of_a_blob_become_an_array_without_a_loop():
    array = np.random.default_rng(0).normal(size=10_000).astype(np.float32)
    blob = caffe_pb2.BlobProto(shape={"dim": [100, 100]})
    blob.data.extend(array.flat)
    again = caffe_pb2.BlobProto.FromString(blob.SerializeToString())
    assert np.array_equal(np.array(again.data), array)
    assert np.array(again.data).dtype == np.float32
    assert list(again.data[:2]) == [float(array[0]), float(array[1])]
