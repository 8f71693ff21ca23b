"""``caffe.draw`` and ``caffe.coord_map``."""

from __future__ import annotations

import shutil
import stat
import sys

import numpy as np
import pytest

from prototorch.caffe import draw
from prototorch.caffe.coord_map import AxisMismatchException, coord_map_from_to, crop
from prototorch.caffe.net_spec import NetSpec
from prototorch.caffe.net_spec import layers as L
from prototorch.caffe.net_spec import params as P
from prototorch.caffe.proto import caffe_pb2, text_format
from prototorch.errors import UsageError

NET = r"""
name: "n"
layer { name: "data" type: "Data" top: "x" data_param { batch_size: 7 } include { phase: TRAIN } }
layer { name: "c{1}" type: "Convolution" bottom: "x" top: "c\"\\" param { lr_mult: 2 }
        convolution_param { num_output: 5 kernel_size: 3 pad: 1 } }
layer { name: "r" type: "ReLU" bottom: "c\"\\" top: "c\"\\" }
layer { name: "p" type: "Pooling" bottom: "c\"\\" top: "p" pooling_param { pool: AVE kernel_size: 2 stride: 2 } }
layer { name: "ip" type: "InnerProduct" bottom: "p" top: "ip" inner_product_param { num_output: 4 }
        exclude { phase: TEST } }
"""


def net():
    return text_format.Merge(NET, caffe_pb2.NetParameter())


def test_a_graph_has_a_node_for_each_layer_and_blob():
    graph = draw.get_pydot_graph(net(), "LR", display_lrm=True)
    assert list(graph.nodes) == ["data_Data", "x_blob", "c{1}_Convolution", 'c"\\_blob', "r_ReLU", "p_Pooling",
                                 "p_blob", "ip_InnerProduct", "ip_blob"]  # fmt: skip
    label = graph.nodes["c{1}_Convolution"]["label"]
    assert label == "c\\{1\\}\n(Convolution)\nkernel size: 3\nstride: 1\npad: 1\nlr mult: 2.0, 1.0"
    assert graph.nodes["p_Pooling"]["label"].startswith("p\n(Pooling AVE)\nkernel size: 2\nstride: 2")
    assert ("data_Data", "x_blob", "Batch 7") in graph.edges
    assert ("ip_InnerProduct", "ip_blob", "4") in graph.edges
    assert ("x_blob", "c{1}_Convolution", "") in graph.edges
    assert len({graph.nodes[n]["fillcolor"] for n in ("r_ReLU", "p_Pooling", "ip_InnerProduct", "x_blob")}) == 4


def test_a_graph_may_be_of_one_phase():
    assert "ip_InnerProduct" not in draw.get_pydot_graph(net(), "TB", phase=caffe_pb2.TEST).nodes
    assert "data_Data" not in draw.get_pydot_graph(net(), "TB", phase=caffe_pb2.TEST).nodes
    assert "ip_InnerProduct" in draw.get_pydot_graph(net(), "TB", phase=caffe_pb2.TRAIN).nodes


def test_names_cannot_leave_their_strings(tmp_path):
    draw.draw_net_to_file(net(), tmp_path / "n.dot", "TB")
    text = (tmp_path / "n.dot").read_text()
    assert '"c\\"\\\\_blob"' in text
    assert text.splitlines()[0] == 'digraph "n" {'
    for line in text.splitlines()[1:-1]:
        inside = line.replace("\\\\", "").replace('\\"', "")
        assert inside.count('"') % 2 == 0, line
    assert draw.draw_net(net(), "TB", "raw") == text.encode()


def test_a_picture_is_what_graphviz_draws(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UsageError, match="needs graphviz"):
        draw.draw_net(net(), "LR", "png")
    program = tmp_path / "dot"
    program.write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1], len(sys.stdin.read()))\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(shutil, "which", lambda name: str(program))
    draw.draw_net_to_file(net(), tmp_path / "n.svg")
    size = len(draw.draw_net(net(), "LR", "dot"))
    assert (tmp_path / "n.svg").read_text() == f"-Tsvg {size}\n"
    with pytest.raises(UsageError, match="no format"):
        draw.draw_net(net(), "LR", "png -o/tmp/x")
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('no such layout')\n")
    with pytest.raises(UsageError, match="no such layout"):
        draw.draw_net(net(), "LR", "png")


def spec(kernel=3, stride=1, pad=0, pool=2, up=2, up_pad=0):
    n = NetSpec()
    n.data = L.Input(shape={"dim": [2, 1, 100, 100]})
    n.conv = L.Convolution(n.data, num_output=10, kernel_size=kernel, stride=stride, pad=pad)
    n.pool = L.Pooling(n.conv, pool=P.Pooling.MAX, kernel_size=pool, stride=pool)
    n.deconv = L.Deconvolution(n.pool, convolution_param={"num_output": 10, "kernel_size": 2 * up, "stride": up,
                                                          "pad": up_pad})  # fmt: skip
    return n


@pytest.mark.parametrize(("settings", "scale", "shift"), [
    ({}, 1, 0), ({"pool": 4, "up": 4}, 1, -1), ({"pad": 3}, 1, -3), ({"up_pad": 2}, 1, 2),
    ({"pad": 2, "up_pad": 2}, 1, 0),
    ({"pool": 4, "up": 2}, 2, None), ({"kernel": 5}, 1, 1),
])  # fmt: skip
def test_positions_are_mapped_through_windows(settings, scale, shift):
    n = spec(**settings)
    n.relu = L.ReLU(n.deconv)
    axis, a, b = coord_map_from_to(n.relu, n.data)
    assert axis == 1
    assert a == scale
    if shift is not None:
        assert b == shift


def test_windows_of_several_sizes_are_mapped_axis_by_axis():
    n = spec(kernel=[3, 5], stride=[1, 2], pad=[0, 10])
    _, a, b = coord_map_from_to(n.deconv, n.data)
    parts = [coord_map_from_to(s.deconv, s.data) for s in (spec(), spec(kernel=5, stride=2, pad=10))]
    np.testing.assert_allclose(a, [float(p[1][0]) for p in parts])
    np.testing.assert_allclose(b, [float(p[2][0]) for p in parts])


def test_a_crop_lies_over_the_other_top():
    n = spec(pad=4)
    n.crop = crop(n.deconv, n.data)
    assert n.crop.fn.params == {"crop_param": {"axis": 2, "offset": [4]}}
    assert [layer.type for layer in n.to_proto().layer][-1] == "Crop"
    axis, _, shift = coord_map_from_to(n.crop, n.data)
    assert (axis, float(shift[0])) == (1, 0)


def test_tops_that_cannot_be_aligned_are_refused():
    with pytest.raises(UsageError, match="scales"):
        _crop(spec(pool=3))
    with pytest.raises(UsageError, match="outside"):
        _crop(spec(up_pad=10))
    n = spec()
    n.ip = L.InnerProduct(n.deconv, num_output=10)
    with pytest.raises(UsageError, match="no common top"):
        coord_map_from_to(n.ip, n.data)
    n.other = L.Convolution(n.data, kernel_size=3, axis=2)
    n.sum = L.Eltwise(n.other, n.conv)
    with pytest.raises(AxisMismatchException):
        coord_map_from_to(L.Pooling(n.other, kernel_size=2), n.data)
    with pytest.raises(UsageError, match="kernel_h"):
        coord_map_from_to(L.Convolution(n.data, kernel_h=3), n.data)


def _crop(n):
    return crop(n.deconv, n.data)
