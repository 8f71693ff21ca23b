"""`prototorch warmup`: kernels are compiled, counted, kept and removed."""

from __future__ import annotations

import json

import pytest

from prototorch.cli import main
from prototorch.engine.backends.cpu.native import jit
from prototorch.model.load import load_model
from prototorch.train.summary import step_specs


@pytest.fixture
def shell(capfd, tmp_path, monkeypatch):
    """Run a command in an empty folder with an empty cache: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROTOTORCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PROTOTORCH_CPU", raising=False)
    forget()

    def run(*args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as done:
            main(list(args))
        out, err = capfd.readouterr()
        return int(done.value.code or 0), out, err

    yield run
    forget()


def forget() -> None:
    """This process knows no kernels any more, as a new one would."""
    jit._addresses.clear()
    jit._symbols.clear()


def plans(out: str) -> list[tuple[str, int, bool, bool]]:
    found = json.loads(out)["plans"]
    return [(p["phase"], p["batch"], p["compiled"] > 0, p["loaded"] > 0) for p in found]


def test_a_folder_where_nothing_can_be_kept_is_an_error(shell, monkeypatch):
    monkeypatch.setenv("PROTOTORCH_CACHE", "")
    code, out, err = shell("warmup", "two_layer")
    assert code == 5
    assert not out
    assert "compiled kernels cannot be cached (nowhere (PROTOTORCH_CACHE is empty)); set PROTOTORCH_CACHE to" in err
    assert shell("warmup")[0] == 0


def test_what_was_compiled_once_is_on_disk(shell):
    command = ("warmup", "two_layer", "--phase", "train", "--batch", "4", "--json")
    code, out, _ = shell(*command)
    assert code == 0
    assert plans(out) == [("train", 4, True, False)]
    forget()
    _, out, _ = shell(*command)
    assert plans(out) == [("train", 4, False, True)]


def test_after_it_a_step_compiles_nothing(shell):
    assert shell("warmup", "two_layer", "--phase", "train", "--batch", "4")[0] == 0
    forget()
    before = jit.CompileStats.num_compiled
    model = load_model("two_layer")
    model.trainer.plan_cache.executor("train", step_specs(model.net, 4))
    assert jit.CompileStats.num_compiled == before


def test_all_phases_and_several_batches(shell):
    _, out, _ = shell("warmup", "two_layer", "--batch", "4", "--batch", "2", "--json")
    found = [(phase, batch) for phase, batch, _, _ in plans(out)]
    assert found == [(phase, batch) for batch in (4, 2) for phase in ("train", "test", "predict")]


def test_a_net_without_a_loss_is_for_prediction(shell, tmp_path):
    (tmp_path / "net.proto").write_text('name: "net"\nInput { shape: [3] }\nDense { units: 2 }\n')
    code, out, err = shell("warmup", "net.proto", "--json")
    assert code == 0, err
    assert [phase for phase, *_ in plans(out)] == ["predict"]


def test_clearing(shell):
    # a batch of its own: code that another test of this process has made already is not made, and so not kept, again
    shell("warmup", "two_layer", "--phase", "predict", "--batch", "37")
    _, out, _ = shell("warmup")
    assert " 0 kernels" not in out
    code, out, _ = shell("warmup", "--clear")
    assert code == 0
    assert "removed" in out
    assert " 0 kernels" in out


def test_without_native_kernels_it_says_why(shell, monkeypatch):
    monkeypatch.setenv("PROTOTORCH_CPU", "numpy")
    code, _, err = shell("warmup", "two_layer")
    assert code == 8
    assert "no kernels to compile" in err


def test_devices_tells_what_is_kept(shell, tmp_path):
    _, out, _ = shell("devices", "--json")
    cpu = json.loads(out)["cpu"]
    assert cpu["level"].startswith("native")
    assert str(tmp_path / "cache") in cpu["kept kernels"]
    assert cpu["vectors"].endswith(" bits")
    assert cpu["llvmlite"]
