"""Layers that a state includes, by ``Net::FilterNet`` and ``StateMeetsRule`` of BVLC/caffe; nets told from ours."""

from pathlib import Path

import pytest

from prototorch.caffe.text.detect_caffe import caffe_kind, find_caffe_kind
from prototorch.caffe.text.net_state import filter_net
from prototorch.caffe.text.reader import read_message
from prototorch.errors import TextError
from prototorch.text.reader import parse

ROOT = Path(__file__).resolve().parents[3]


def _is_kept(rules, phase="TEST", level=0, stages=()):
    net = read_message(f"layer {{ name: 'a' {rules} }}", "NetParameter")
    kept = bool(filter_net(net, phase, level, stages)["layer"])
    assert len(net["layer"]) == 1
    return kept


def test_phases():
    assert _is_kept("")
    assert _is_kept("include { phase: TEST }")
    assert not _is_kept("include { phase: TRAIN }")
    assert not _is_kept("exclude { phase: TEST }")
    assert _is_kept("exclude { phase: TRAIN }")
    assert _is_kept("include { }")
    assert not _is_kept("exclude { }")


def test_levels():
    assert [_is_kept("include { min_level: 1 max_level: 2 }", level=i) for i in range(4)] == [False, True, True, False]
    assert [_is_kept("exclude { min_level: 1 }", level=i) for i in range(3)] == [True, False, False]


def test_stages():
    rule = "include { stage: 'a' stage: 'b' not_stage: 'c' }"
    assert _is_kept(rule, stages=("a", "b", "d"))
    assert not _is_kept(rule, stages=("a",))
    assert not _is_kept(rule, stages=("a", "b", "c"))


def test_one_of_several_rules_is_enough():
    assert _is_kept("include { phase: TRAIN } include { stage: 's' }", stages=("s",))
    assert not _is_kept("exclude { phase: TRAIN } exclude { stage: 's' }", stages=("s",))


def test_both_kinds_of_rules_are_refused():
    with pytest.raises(TextError, match="'a' has include and exclude rules"):
        _is_kept("include { } exclude { }")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("layer { name: 'a' }", "net"),
        ("name: 'n' layers { type: RELU }", "net"),
        ("layers: [{ type: RELU }]", "net"),
        ("layer < name: 'a' >", "net"),
        ("input: 'data' input_dim: 1", "net"),
        ("input: 'data' input_shape { dim: 1 }", "net"),
        ("base_lr: 0.1", "solver"),
        ("net: 'a.prototxt' type: 'SGD'", "solver"),
        ("net_param { layer { } }", "solver"),
        ("# layer {\nsolver_mode: GPU\nbase_lr: 1e-05 type: 'layer {'", "solver"),
        ("name: 'n' # x\nlayer: { name: 'a' }", "net"),
        ("block layer(n) { Dense { units: $n } }\nlayer { n: 2 }", None),
        ("include 'blocks.proto'\nlayer { n: 2 }", None),
        ("name: 'n'\ninput { name: 'x' shape: [2] }\nDense { units: 2 }", None),
        ("Dense { units: 2 }\nmomentum: 0.9", None),
        ("compile { loss: mse }\nmax_iter: 2", None),
        ("", None),
        ("name: 'n'", None),
    ],
)
def test_kind(text, kind):
    assert caffe_kind(parse(text)) == kind
    assert find_caffe_kind(text) == kind


def test_no_text_of_ours_is_one_of_caffe():
    paths = sorted((ROOT / "models").glob("*.proto"))
    assert paths
    assert [p.name for p in paths if caffe_kind(parse(p.read_text("utf-8"))) is not None] == []
    assert [p.name for p in paths if find_caffe_kind(p.read_text("utf-8")) is not None] == []
