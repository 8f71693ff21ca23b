"""The choice among cuDNN's plans: timed once, kept by device and version, found again."""

from __future__ import annotations

from types import SimpleNamespace

from prototorch.backends.cuda.cudnn.graph_desc import GraphDesc, TensorDesc
from prototorch.backends.cuda.cudnn.plan_autotuner import PlanAutotuner
from prototorch.errors import ResourceError

REQUEST = GraphDesc("conv", (("x", TensorDesc((1, 2), (2, 1), "float32")),), ())


class Graph:
    """Three plans, of which the second is the fastest, and the third does not build."""

    def __init__(self, names=("slow", "fast", "broken")):
        self.names, self.built = names, []

    def get_plan_name_at_index(self, number):
        return self.names[number]

    def get_execution_plan_count(self):
        return len(self.names)


def choices(monkeypatch, tmp_path, autotune=True):
    monkeypatch.setenv("PROTOTORCH_CACHE", str(tmp_path))
    module = SimpleNamespace(backend_version=lambda: 91900, cudnnGraphNotSupportedError=KeyError)
    device = SimpleNamespace(
        name="A GPU", precision="fp32", deterministic=False, settings=SimpleNamespace(autotune=autotune)
    )
    made = PlanAutotuner(SimpleNamespace(device=device, module=module))
    made.timed = []

    def time(plan, number):
        made.timed.append(number)
        if plan.graph.names[number] == "broken":
            raise RuntimeError("no")
        return {"slow": 2.0, "fast": 1.0}[plan.graph.names[number]]

    monkeypatch.setattr(made, "_time_plan", time)
    return made


def plan(*names):
    return SimpleNamespace(desc=REQUEST, graph=Graph(*([names] if names else [])))


def test_without_autotune_the_first_that_works(monkeypatch, tmp_path):
    assert choices(monkeypatch, tmp_path, autotune=False).select_plan(plan()) is None


def test_the_fastest_is_kept_on_disk(monkeypatch, tmp_path):
    one = choices(monkeypatch, tmp_path)
    assert one.select_plan(plan()) == 1
    assert one.timed == [0, 1, 2]
    again = choices(monkeypatch, tmp_path)
    assert again.select_plan(plan("fast", "slow")) == 0, "found by its name, wherever it ranks now"
    assert again.timed == []
    assert [p.name for p in (tmp_path / "kernels").glob("*.json")] == ["cudnn-A-GPU-91900.json"]


def test_a_plan_that_is_gone_is_timed_anew(monkeypatch, tmp_path):
    choices(monkeypatch, tmp_path).select_plan(plan())
    again = choices(monkeypatch, tmp_path)
    assert (
        again.select_plan(
            plan(
                "slow",
            )
        )
        == 0
    )
    assert again.timed == [0]


def test_a_file_that_is_not_one_is_made_anew(monkeypatch, tmp_path):
    choices(monkeypatch, tmp_path).select_plan(plan())
    (tmp_path / "kernels" / "cudnn-A-GPU-91900.json").write_text("no json", encoding="utf-8")
    assert choices(monkeypatch, tmp_path).select_plan(plan()) == 1


def test_a_folder_that_cannot_be_written_to(monkeypatch, tmp_path):
    """The choice is made all the same."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert choices(monkeypatch, tmp_path / "file").select_plan(plan()) == 1


def test_one_that_wants_too_much_memory_is_passed_over(monkeypatch, tmp_path):
    made = choices(monkeypatch, tmp_path)
    inner = made._time_plan

    def time(plan, number):
        if plan.graph.names[number] == "slow":
            raise ResourceError("the GPU has no room")
        return inner(plan, number)

    monkeypatch.setattr(made, "_time_plan", time)
    assert made.select_plan(plan("slow", "fast", "fast")) == 1


def test_where_nothing_can_be_timed_cudnn_decides(monkeypatch, tmp_path):
    assert (
        choices(monkeypatch, tmp_path).select_plan(
            plan(
                "broken",
            )
        )
        is None
    )
