"""`prototorch show --plan`: what a step does, before it is run."""

from __future__ import annotations

import json
import re

import pytest

from prototorch.cli import main


@pytest.fixture
def shell(capfd, tmp_path, monkeypatch):
    """Run a command in an empty folder: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as done:
            main(list(args))
        out, err = capfd.readouterr()
        return int(done.value.code or 0), out, err

    return run


def test_a_training_step_is_shown_step_by_step(shell):
    code, out, _ = shell("show", "lenet", "--plan", "--batch", "4")
    assert code == 0
    head, *lines = out.splitlines()
    assert head.startswith("lenet: training step, batch 4, cpu")
    assert re.search(r"^ *1 fwd - +count_outside .* target:logits", out, re.MULTILINE)
    assert re.search(r"^ *2 fwd conv2d_1 +conv.* image \./kernel.* -> 4x20x24x24", out, re.MULTILINE)
    assert re.search(r"^ *\d+ bwd conv2d_2 ", out, re.MULTILINE)
    assert re.search(r"^ *\d+ upd .* in \./kernel", out, re.MULTILINE)
    assert any(line.startswith("output loss = #") for line in lines)
    assert lines[-1].startswith("bytes: arena ")


def test_the_parts_of_the_plan_add_up(shell):
    code, out, _ = shell("show", "lenet", "--plan", "--batch", "4", "--json")
    assert code == 0
    plan = json.loads(out)
    assert [s["number"] for s in plan["steps"]] == list(range(1, len(plan["steps"]) + 1))
    for counted in ("phase", "level"):
        assert sum(plan["totals"][counted].values()) == len(plan["steps"])
    ends = [w["offset"] + w["nbytes"] for s in plan["steps"] for w in s["writes"] if w["place"] == "arena"]
    assert max(ends) <= plan["arena"] < max(ends) + 64  # the arena ends with its last buffer, rounded up
    assert plan["inputs"] >= 4 * 28 * 28 * 4
    assert all(s["members"] for s in plan["steps"])


def test_a_prediction_needs_no_loss_and_has_no_backward(shell, tmp_path):
    (tmp_path / "m.proto").write_text('name: "m"\ninput { name: "a"  shape: [3] }\nDense { units: 2 }\n')
    code, out, _ = shell("show", "m.proto", "--plan")
    assert code == 0
    assert out.startswith("m: prediction, batch 32")
    assert " bwd " not in out
    code, _, err = shell("show", "m.proto", "--plan", "--phase", "train")
    assert code == 2
    assert "no loss" in err


def test_the_plain_level_has_no_kernels(shell, monkeypatch):
    monkeypatch.setenv("PROTOTORCH_CPU", "plain")
    code, out, _ = shell("show", "two_layer", "--plan", "--phase", "test", "--json")
    assert code == 0
    plan = json.loads(out)
    assert plan["title"].startswith("two_layer: evaluation step")
    assert set(plan["totals"]["level"]) == {"plain"}


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--plan", "--phase", "trian"), "there is no phase 'trian'; there are train, test, predict. Did you mean"),
        (("--plan", "--expanded"), "--plan and --expanded"),
        (("--batch", "3"), "--batch belongs to --plan"),
        (("--json",), "--json belongs to --plan"),
        (("--plan", "--batch", "0"), "--batch"),
    ],
)
def test_wrong_usage_is_told(shell, args, told):
    code, _, err = shell("show", "lenet", *args)
    assert code == 2
    assert told in err


def test_the_graph_after_a_pass(shell):
    code, out, _ = shell("show", "lenet", "--plan", "--batch", "4", "--phase", "predict", "--after", "fold_constants")
    assert code == 0
    head, *lines = out.splitlines()
    assert head.startswith("lenet: prediction, batch 4, cpu")
    assert head.endswith("after fold_constants")
    assert re.search(r"^%\d+ +fwd conv2d_1 +conv image \./kernel \{strides: .*\} -> 4x20x24x24$", out, re.MULTILINE)
    assert lines[-1].startswith("output logits = %")
    code, out, _ = shell("show", "lenet", "--plan", "--after", "fold_constants", "--json")
    assert code == 0
    assert {"nodes", "outputs", "updates"} == json.loads(out).keys()


def test_the_passes_with_what_they_changed(shell):
    code, out, _ = shell("show", "lenet", "--plan", "--passes")
    assert code == 0
    lines = out.splitlines()
    assert lines[1].split() == ["pass", "changed", "nodes", "before", "nodes", "after", "ms"]
    assert any(line.startswith("eliminate_common_subexpressions") for line in lines)
    code, out, _ = shell("show", "lenet", "--plan", "--passes", "--json")
    assert {"name", "changed", "nodes_before", "nodes_after", "seconds"} == json.loads(out)[0].keys()


def test_a_pass_that_is_not_there_or_does_not_run(shell):
    code, _, err = shell("show", "lenet", "--plan", "--after", "fuse_op")
    assert code == 2
    assert "there is no pass 'fuse_op'. Did you mean 'fuse_ops'?" in err
    code, _, err = shell("show", "lenet", "--plan", "--after", "rematerialize")
    assert code == 2
    assert "the pass rematerialize does not run for lenet: training step" in err
    code, _, err = shell("show", "lenet", "--passes")
    assert code == 2
    assert "--passes belongs to --plan" in err
