"""``--set BLOB.shape=[...]`` gives the sizes that only data files tell, in every command that asks for them."""

import re

import pytest

from prototorch.caffe.interop.caffe_net import CaffeNet
from prototorch.cli.main import main

NET = """
name: "n"
layer { name: "d" type: "Data" top: "data" top: "label" data_param { source: "no_lmdb" batch_size: 4 backend: LMDB } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 3 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""
SOLVER = 'net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: 10\n'


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.prototxt").write_text(NET)
    (tmp_path / "solver.prototxt").write_text(SOLVER)

    def run_command(*args):
        with pytest.raises(SystemExit) as done:
            main(list(args))
        return done.value.code or 0, "".join(capfd.readouterr())

    return run_command


@pytest.mark.parametrize("file", ["net.prototxt", "solver.prototxt"])
def test_convert_takes_the_setting_that_its_message_asks_for(run, tmp_path, file):
    code, out = run("convert", file, "-o", "x.proto")
    assert code
    assert "--set data.shape=[" in out
    code, out = run("convert", file, "-o", "x.proto", "--set", "data.shape=[2,5]")
    assert code == 0, out
    text = (tmp_path / "x.proto").read_text()
    assert "[2, 5]" in text
    assert "SparseCategoricalCrossentropy" in text
    assert ("fit {" in text) == (file == "solver.prototxt")


@pytest.mark.parametrize(
    ("setting", "message"),
    [("classes=3", "has no params"), ("ip.units=3", r"--set ip.units: .* takes BLOB.shape"),
     ("data.shape=[-1]", "integers of at least 1"), ("dta.shape=[3]", "no input 'dta'")],
)  # fmt: skip
def test_convert_refuses_other_settings(run, setting, message):
    code, out = run("convert", "net.prototxt", "-o", "x.proto", "--set", setting)
    assert code
    assert re.search(message, out), out


@pytest.mark.parametrize(
    ("command", "file"),
    [(("check",), "net.prototxt"), (("summary",), "net.prototxt"), (("show", "--expanded"), "net.prototxt"),
     (("check",), "solver.prototxt"), (("summary",), "solver.prototxt")],
)  # fmt: skip
def test_other_commands_take_it_too(run, command, file):
    code, out = run(*command, file)
    assert code
    assert "--set data.shape=[" in out
    code, out = run(*command, file, "--set", "data.shape=[2,5]")
    assert code == 0, out


def test_the_mistakes_of_a_solver_are_checked(run, tmp_path):
    (tmp_path / "solver.prototxt").write_text(SOLVER.replace("fixed", "fixd"))
    code, out = run("check", "solver.prototxt", "--set", "data.shape=[2,5]")
    assert code == 3
    assert re.search(r"solver.prototxt:1:\d+: .*no lr_policy 'fixd'.*fixed", out), out


def test_a_summary_translates_the_net_once(run, monkeypatch):
    made = []
    monkeypatch.setattr("prototorch.caffe.interop.translate.CaffeNet", _counting(made))
    assert run("summary", "net.prototxt", "--set", "data.shape=[2,5]")[0] == 0
    assert made == ["TEST"]


def _counting(made):
    def make(*args):
        net = CaffeNet(*args)
        made.append(net.phase)
        return net

    return make
