"""``Net("lenet", ...)``: a net in a net, expanded to plain layers."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import TextError
from prototorch.model.docs_pages import find_page
from prototorch.model.load import model_from_text
from prototorch.text.call_style import to_calls
from prototorch.text.loader import load_document
from prototorch.text.reader import parse
from prototorch.text.writer import format_document
from tests.text.nested_folder import BASE, model_of, write_nets


@pytest.fixture
def folder(tmp_path):
    return write_nets(tmp_path)


def names(model):
    return [node.name for node in model.net.nodes]


# ---------------------------------------------------------------------- expansion


def test_the_layers_have_the_name_of_the_use_in_front(folder):
    model = model_of(folder, 'input("x", [6])\nDense(6)\nNet("base.proto", width: 3)\nDense(2)\n')
    assert names(model) == ["dense_1", "base/a", "base/dropout_1", "base/b", "dense_2"]
    assert [node.bottoms for node in model.net.nodes] == [
        ("x",),
        ("dense_1",),
        ("base/a",),
        ("base/dropout_1",),
        ("base/b",),
    ]
    assert model.net.node("base/a").layer.units == 3


def test_both_forms_are_the_same_and_the_expanded_text_is_plain(folder):
    call = model_of(folder, 'input("x", [6])\nNet("base.proto", width: 3, name: "n")\nDense(2)\n')
    braces = model_of(
        folder,
        'input { name: "x"  shape: [6] }\nNet { source: "base.proto"  width: 3  name: "n" }\nDense { units: 2 }\n',
    )
    assert call.net == braces.net
    expanded = format_document(load_document(folder / "outer.proto"))
    assert "Net" not in expanded
    assert model_from_text(expanded, "outer.proto").net == call.net


def test_uses_without_a_name_are_numbered_and_params_differ(folder):
    text = 'input("x", [6])\nNet("base.proto", width: 1)\nDense(6)\n'
    text += 'Net("base.proto", width: 2)\nDense(6)\nNet("base.proto", width: 1)\n'
    model = model_of(folder, text)
    assert [n for n in names(model) if n.endswith("/a")] == ["base/a", "base_2/a", "base_3/a"]
    assert [model.net.node(n).layer.units for n in ("base/a", "base_2/a", "base_3/a")] == [1, 2, 1]


def test_values_are_those_of_the_net_alone(folder):
    inner = pt.load_model(folder / "base.proto")
    outer = model_of(folder, 'input("x", [6])\nNet("base.proto", name: "n")\n')
    for name, array in inner.weights.items():
        outer.weights[f"n/{name}"][...] = array
    x = np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)
    np.testing.assert_array_equal(outer.predict(x), inner.predict(x))


def test_the_output_may_be_any_layer_and_those_behind_it_are_left_out(folder):
    assert names(model_of(folder, 'input("x", [6])\nNet("base.proto", output: "a")\nDense(1)\n')) == [
        "base/a",
        "dense_1",
    ]
    lenet = model_of(folder, 'input("x", [1, 28, 28])\nNet("lenet", output: "conv2d_2")\nFlatten\n')
    assert names(lenet) == ["lenet/conv2d_1", "lenet/max_pooling2d_1", "lenet/conv2d_2", "flatten_1"]


def test_the_block_of_a_text_is_an_output_and_losses_in_between_are_none(folder):
    resnet = model_of(folder, 'input("x", [3, 64, 64])\nNet("resnet18", output: "conv1")\nFlatten\nDense(1)\n')
    assert names(resnet)[0] == "resnet18/conv1/conv"
    google = model_of(folder, 'input("x", [3, 224, 224])\nNet("googlenet", output: "inception_5")\nDense(1)\n')
    assert not any("loss" in name for name in names(google))


def test_an_output_is_named_and_read_by_its_name(folder):
    text = 'input("x", [6])\nfirst = Net("base.proto")\nDense(5)\nAdd(first, dense_1)\n'
    text = text.replace("Dense(5)", 'Dense(5, name: "dense_1")')
    model = model_of(folder, text)
    assert model.net.nodes[-1].bottoms == ("first", "dense_1")
    assert model.net.node("base/b").tops == ("first",)
    by_label = model_of(
        folder, 'input("x", [6])\nNet("base.proto", name: "n")\nDense(5, name: "d")\nAdd { bottom: ["n", "d"] }\n'
    )
    assert by_label.net.nodes[-1].bottoms == ("n/b", "d")
    inner = model_of(
        folder,
        'input("x", [6])\nNet("base.proto", name: "n")\nDense(4, name: "d")\n'
        'Add { bottom: ["n/a", "d"] }\noutput: ["n/b", "add_1"]\n',
    )
    assert inner.net.node("add_1").bottoms == ("n/a", "d")


def test_outputs_by_arrow_and_inputs_first(folder):
    text = 'input("p", [3])\ninput("q", [3])\nNet(q, p, "pair.proto") -> (one, two)\nConcatenate(two, one)\n'
    model = model_of(folder, text)
    assert model.net.node("pair/tower_l").bottoms == ("q",)
    assert model.net.nodes[-1].bottoms == ("two", "one")


def test_a_net_in_a_block_that_names_its_inputs_and_outputs(folder):
    text = (
        'input("p", [3])\ninput("q", [3])\nblock both(n) {\n  input "a"\n  input "b"\n'
        '  Net(b, a, "pair.proto") -> (d, s)\n  output: ["s", "d"]\n}\n'
        "both(p, q, n: 1, trainable: false) -> (s, d)\nAdd(d, s)\n"
    )
    model = model_of(folder, text)
    assert model.net.node("both_1/pair/tower_l").bottoms == ("q",)
    assert not any(node.layer.trainable for node in model.net.nodes[:-1])


def test_several_inputs_and_outputs(folder):
    text = (
        'input("p", [3])\ninput("q", [3])\nNet("pair.proto", bottom: ["q", "p"], top: ["one", "two"])\n'
        'Concatenate { bottom: ["one", "two"] }\n'
    )
    model = model_of(folder, text)
    assert model.net.node("pair/tower_l").bottoms == ("q",)
    assert model.net.node("pair/tower_r").bottoms == ("p",)
    assert model.net.nodes[-1].bottoms == ("one", "two")
    assert model.net.node("pair/sq").bottoms == ("one",)
    assert model.net.node("pair/tower_l").layer.weights == "pair/tower"
    assert model.net.node("pair/twice").layer.share[0].source == "pair/sq/kernel"
    assert model.predict({"p": np.ones((2, 3), np.float32), "q": np.ones((2, 3), np.float32)}).shape == (2, 4)


def test_what_follows_a_net_reads_its_first_output(folder):
    text = 'input("p", [3])\ninput("q", [3])\nNet("pair.proto", bottom: ["p", "q"])\n'
    text += 'Dense(1, name: "end")\noutput: ["end", "pair/sum"]\n'
    assert model_of(folder, text).net.node("end").bottoms == ("pair/d",)


def test_a_net_in_a_net_in_a_net(folder):
    (folder / "parts").mkdir()
    (folder / "parts" / "one.proto").write_text(
        'input("x", [6])\nNet("../base.proto", width: 2)\nDense(6, name: "end")\n'
    )
    (folder / "two.proto").write_text('input("x", [6])\nNet("parts/one.proto", name: "m")\nDense(3, name: "end")\n')
    model = model_of(folder, 'input("x", [6])\nNet("two.proto", trainable: false)\nDense(1)\n')
    assert names(model) == ["two/m/base/a", "two/m/base/dropout_1", "two/m/base/b", "two/m/end", "two/end", "dense_1"]
    assert not any(node.layer.trainable for node in model.net.nodes[:-1])


def test_nets_in_blocks_branches_and_repeats(folder):
    text = (
        'input("x", [6])\nblock two(n) {\n  Net("base.proto", width: n)\n  Dense(6)\n}\n'
        "repeat i in $range(2) { two(i + 1) }\n"
        'Add {\n  branch { Net("base.proto", name: "left") }\n'
        '  branch { Net("base.proto", name: "right", output: "b") }\n}\n'
    )
    model = model_of(folder, text)
    assert [model.net.node(f"two_{i}/base/a").layer.units for i in (1, 2)] == [1, 2]
    assert model.net.node("left/a").bottoms == model.net.node("right/a").bottoms == ("two_2/dense_1",)
    assert model.net.nodes[-1].bottoms == ("left/b", "right/b")


def test_what_a_use_says_holds_for_all_layers_in_it(folder):
    (folder / "mixed.proto").write_text(BASE.replace('name: "b"', 'name: "b"  lr_mult: 0.5  trainable: false'))
    model = model_of(folder, 'input("x", [6])\nNet("mixed.proto", lr_mult: 0.1, decay_mult: 0)\nDense(1)\n')
    a, b = (model.net.node(f"mixed/{n}").layer for n in "ab")
    assert (a.lr_mult, a.decay_mult, a.trainable) == (0.1, 0, True)
    assert (b.lr_mult, b.decay_mult, b.trainable) == (0.05, 0, False)


def test_two_uses_share_their_weights_by_a_name(folder):
    text = (
        'input("p", [6])\ninput("q", [6])\n'
        'Net("base.proto", name: "left", bottom: "p", shared_weights: "tower")\n'
        'Net("base.proto", name: "right", bottom: "q", shared_weights: "tower")\n'
        'Subtract { bottom: ["left", "right"] }\n'
    )
    model = model_of(folder, text)
    assert list(model.weights) == ["tower/a/kernel", "tower/a/bias", "tower/b/kernel", "tower/b/bias"]
    x = np.random.default_rng(0).normal(size=(2, 6)).astype(np.float32)
    assert not model.predict({"p": x, "q": x}).any()


def test_a_param_with_the_name_of_a_field(folder):
    (folder / "p.proto").write_text('param trainable: 3\ninput("x", [6])\nDense(trainable, name: "d")\n')
    model = model_of(
        folder, 'input("x", [6])\nNet("p.proto", trainable: false) { params { trainable: 7 } }\nDense(1)\n'
    )
    assert (model.net.node("p/d").layer.units, model.net.node("p/d").layer.trainable) == (7, False)


def test_a_block_of_the_name_is_the_text_s_own():
    model = model_from_text('input("x", [6])\nblock Net(n) { Dense(n) }\nNet(3)\n')
    assert names(model) == ["Net_1/dense_1"]


def test_the_call_form_of_a_net(folder):
    source = 'input { name: "x"  shape: [6] }\nNet { source: "base.proto"  output: "a"  trainable: false  width: 3 }\n'
    document = parse(source, trivia=True)
    assert 'Net("base.proto", output: "a", trainable: false, width: 3)' in format_document(to_calls(document))


def test_the_manual_has_a_page_of_nets():
    page = str(find_page("Net"))
    assert "shared_weights" in page
    assert 'Net("lenet", weights: "fashion-mnist"' in page


def test_params_are_set_through_nets_and_by_the_caller(folder):
    text = 'param w: 2\ninput("x", [6])\nNet("base.proto", width: w + 1)\n'
    assert model_of(folder, text).net.node("base/a").layer.units == 3
    assert model_of(folder, text, w=8).net.node("base/a").layer.units == 9


def test_a_layer_type_as_a_param_of_a_block_may_be_a_net(folder):
    text = 'input("x", [6])\nblock around(body) { body { }  Dense(6) }\naround { body { Net("base.proto") } }\n'
    assert "around_1/body_1/base/a" in names(model_of(folder, text))


# ---------------------------------------------------------------------- limits, and files that are not trusted


def test_a_circle_of_nets_is_refused(folder):
    (folder / "one.proto").write_text('input("x", [6])\nNet("two.proto")\n')
    (folder / "two.proto").write_text('input("x", [6])\nNet("one.proto")\n')
    with pytest.raises(TextError, match=r"contain each other in a circle: one\.proto -> two\.proto -> one\.proto"):
        model_of(folder, 'input("x", [6])\nNet("one.proto")\n')
    with pytest.raises(TextError, match=r"in a circle: outer\.proto -> outer\.proto"):
        model_of(folder, 'input("x", [6])\nNet("outer.proto")\n')


def test_files_outside_the_folder_and_links_are_refused(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.proto").write_text(BASE)
    (folder / "link.proto").symlink_to(outside / "secret.proto")
    (folder / "linked").symlink_to(outside)
    for path in (
        "../secret.proto",
        str(outside / "secret.proto"),
        "link.proto",
        "linked/secret.proto",
        "a.txt/../../b.h5",
    ):
        with pytest.raises(TextError) as raised:
            model_of(folder, f'input("x", [6])\nNet("{path}")\n')
        assert "secret" not in str(raised.value).replace(path, "")


def test_python_runs_only_where_the_text_around_imports_it(folder):
    (folder / "evil.py").write_text("raise SystemExit('it ran')\n")
    (folder / "own.proto").write_text('import: "evil"\ninput("x", [6])\nDense(2)\n')
    with pytest.raises(TextError, match="needs the Python module 'evil', which this text does not import"):
        model_of(folder, 'input("x", [6])\nNet("own.proto")\n', allow_python=True)
    with pytest.raises(TextError, match="would run"):
        model_of(folder, 'import: "evil"\ninput("x", [6])\nNet("own.proto")\n')


def test_a_net_with_layers_of_its_own_module(folder):
    (folder / "doubling_of_nets.py").write_text(
        "import prototorch as pt\n\n\nclass DoubleOfNets(pt.layers.Layer):\n"
        "    def call(self, ctx, x):\n        return x + x\n"
    )
    (folder / "own.proto").write_text('import: "doubling_of_nets"\ninput("x", [6])\nDoubleOfNets { }\n')
    model = model_of(folder, 'import: "doubling_of_nets"\ninput("x", [6])\nNet("own.proto")\n', allow_python=True)
    assert model.predict(np.ones((1, 6), np.float32)).tolist() == [[2.0] * 6]


def test_limits_hold_over_all_nets(folder):
    (folder / "many.proto").write_text('input("x", [1])\nrepeat 30000 { ReLU }\n')
    text = 'input("x", [1])\n' + 'Net("many.proto")\n' * 4
    with pytest.raises(TextError, match="more than 100,000 layers"):
        model_of(folder, text)
    (folder / "bomb.proto").write_text('input("x", [1])\nrepeat 999999999 { ReLU }\n')
    with pytest.raises(TextError, match="steps"):
        model_of(folder, 'input("x", [1])\nrepeat 1000 { Net("bomb.proto") }\n')


def test_a_net_that_is_used_often_is_read_once(folder, monkeypatch):
    from prototorch.model import nested_sources

    reads = []
    read = nested_sources._read_text
    monkeypatch.setattr(nested_sources, "_read_text", lambda *args: reads.append(args[2]) or read(*args))
    model_of(folder, 'input("x", [6])\nrepeat 20 { Net("base.proto", output: "b")  Dense(6) }\n')
    assert len(reads) == 1


def test_a_text_that_is_no_file_has_shipped_nets_alone():
    text = 'input("x", [1, 28, 28])\nNet("lenet")\n'
    assert names(model_from_text(text))[0] == "lenet/conv2d_1"
    with pytest.raises(TextError, match="A text that is not a file has nets of the package alone"):
        model_from_text('input("x", [6])\nNet("base.proto")\n')
