"""Configs that nobody's Keras wrote: each is refused with one sentence, soon, and nothing in it is looked up."""

from __future__ import annotations

import copy
import json
import sys
import time

import pytest

from prototorch.errors import PrototorchError
from prototorch.interop.keras.config_import.whole_model import import_config, import_file


def dense(name="d", units=2, **config):
    return {"class_name": "Dense", "module": "keras.layers", "config": {"name": name, "units": units, **config}}


def sequential(*layers):
    entry = {"class_name": "InputLayer", "config": {"name": "x", "batch_shape": [None, 4]}}
    return {"class_name": "Sequential", "config": {"name": "net", "layers": [entry, *layers]}}


def functional(nodes, output=("d", 0, 0), inputs=(("x", 0, 0),)):
    layers = [{"class_name": "InputLayer", "name": "x", "config": {"name": "x", "batch_shape": [None, 4]},
               "inbound_nodes": []}, {**dense(), "name": "d", "inbound_nodes": nodes}]  # fmt: skip
    return {"class_name": "Functional", "config": {"name": "net", "layers": layers, "input_layers": list(inputs),
                                                   "output_layers": [list(output)]}}  # fmt: skip


def nested(depth):
    net = sequential(dense())
    for number in range(depth):
        net = sequential({**net, "config": {**net["config"], "name": f"n{number}"}})
    return net


CASES = {
    "no model": {},
    "a list of texts": {"class_name": "Sequential", "config": ["Dense"]},
    "layers of no list": {"class_name": "Sequential", "config": {"layers": 3}},
    "a subclassed model": {"class_name": "MyNet", "config": {"units": 3}},
    "no layers": sequential(),
    "a Lambda": sequential({"class_name": "Lambda", "config": {"name": "l", "function": ["4wEAAAA", None, None]}}),
    "a module of somebody": sequential({"class_name": "system", "module": "os", "config": {"name": "rm"}}),
    "a module beside keras": sequential({"class_name": "Dense", "module": "keras_evil", "config": {"units": 1}}),
    "a function of Python": sequential(dense(activation={"module": "builtins", "class_name": "function",
                                                         "config": "eval", "registered_name": "eval"})),
    "a registered activation": sequential(dense(activation={"class_name": "ReLU", "registered_name": "a>ReLU",
                                                            "module": "evil", "config": {}})),
    "an initializer by path": sequential(dense(kernel_initializer={"class_name": "../../x", "config": {}}, units="7")),
    "units as text": sequential(dense(units="2")),
    "units as a bool": sequential(dense(units=True)),
    "units of 2 ** 62": sequential(dense(units=2**62)),
    "units of -1": sequential(dense(units=-1)),
    "units as NaN": sequential(dense(units=float("nan"))),
    "units as a list": sequential(dense(units=[1] * 1000)),
    "two wide layers": sequential(dense("a", 2**25), dense("b", 2**25)),
    "a torch module": sequential({"class_name": "TorchModuleWrapper", "config": {"module": "gASV", "name": "t"}}),
    "a SavedModel layer": sequential({"class_name": "TFSMLayer", "config": {"filepath": "/etc", "name": "t"}}),
    "an op of Keras 2": sequential({"class_name": "TFOpLambda", "config": {"function": "os.system", "name": "t"}}),
    "a wrapper of nothing": sequential({"class_name": "Bidirectional", "config": {"layer": None, "name": "b"}}),
    "a wrapper of itself": sequential({"class_name": "TimeDistributed", "config": {"name": "b", "layer": {
        "class_name": "TimeDistributed", "config": {"layer": 3}}}}),
    "a class_name of no text": sequential({"class_name": ["Dense"], "config": {}}),
    "a circle": functional([[["d", 0, 0, {}]]]),
    "a layer that is not there": functional([[["y", 0, 0, {}]]]),
    "a call that is not there": functional([[["x", 5, 0, {}]]]),
    "an output that is not there": functional([[["x", 0, 0, {}]]], output=("d", 0, 7)),
    "a negative call": functional([[["x", -1, 0, {}]]]),
    "no inputs": functional([[["x", 0, 0, {}]]], inputs=()),
    "nodes of no list": functional(3),
    "a history of nonsense": functional([{"args": [{"class_name": "__keras_tensor__", "config": {"keras_history": 7}}],
                                          "kwargs": {}}]),
    "models in models": nested(60),
    "an input of no shape": {"class_name": "Sequential", "config": {"layers": [dense()]}},
    "an input of 2 ** 40": {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [None, 2**40, 2**40]}}, dense()]}},
    "an input of text": {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [None, "4"]}}, dense()]}},
    "an input of strings": {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [None, 4], "dtype": "string"}}, dense()]}},
    "a reshape of nothing": sequential({"class_name": "Reshape", "config": {"target_shape": [0, -1], "name": "r"}}),
    "a permutation of nothing": sequential({"class_name": "Permute", "config": {"dims": [1, 1], "name": "p"}}),
    "a padding of 10 ** 9": {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [None, 4, 4, 1]}},
        {"class_name": "ZeroPadding2D", "config": {"padding": [[10**9, 0], [10**9, 0]], "name": "z"}}]}},
}  # fmt: skip


@pytest.fixture
def audited():
    """Events that a reader of data has no reason for."""
    events = []
    active = [True]

    def hook(event, args):
        if active[0] and event in ("os.system", "compile", "subprocess.Popen", "socket.connect", "marshal.loads"):
            events.append((event, str(args)[:80]))

    sys.addaudithook(hook)
    yield events
    active[0] = False


@pytest.mark.parametrize("name", CASES)
def test_hostile_configs_are_refused(name, audited):
    config = copy.deepcopy(CASES[name])
    with pytest.raises(PrototorchError):
        import_config(copy.deepcopy(config), None, "net.keras")
    audited.clear()  # the first time, modules of our own are loaded
    begin = time.process_time()
    with pytest.raises(PrototorchError) as error:
        import_config(config, None, "net.keras")
    assert time.process_time() - begin < 10
    assert str(error.value).startswith("net.keras: ")
    assert len(str(error.value)) < 1500
    assert not audited


def test_deep_json_is_refused(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"class_name": "Sequential", "config": ' + "[" * 200_000 + "]" * 200_000 + "}")
    with pytest.raises(PrototorchError, match="nested"):
        import_file(str(path))


def test_names_that_climb_stay_names(tmp_path):
    config = sequential(dense("../../../etc/passwd"), dense("..", 3), dense("a/../b", 4), dense("/abs", 5))
    imported = import_config(json.loads(json.dumps(config)), None, "net")
    assert [node.name for node in imported.net.nodes] == ["etc/passwd", "layer", "a/b", "abs"]
