"""A forged training state with a right digest is refused with the path of the field, or it is one that can be."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import prototorch as pt
from prototorch.cli import main
from prototorch.engine.storage import checkpoint, container
from prototorch.errors import ModelFileError, PrototorchError, TrainingError
from prototorch.model.load import model_from_text
from prototorch.train.state_fields import StateError
from prototorch.train.training_state import check_training_state

X = np.random.default_rng(0).random((10, 3), np.float32)
Y = X.sum(1, keepdims=True)
TEXT = """
input { name: "x"  shape: [3] }
Dense { name: "out"  units: 1 }
compile { loss: mse  optimizer: adam  metrics: [mae]  seed: 3 }
fit {
  epochs: 3  batch_size: 4
  callbacks: [
    EarlyStopping { monitor: "loss"  patience: 5 },
    ReduceLROnPlateau { monitor: "loss"  patience: 5 },
    CSVLogger { filename: "log.csv" },
    ModelCheckpoint { filepath: "{epoch}.h5"  monitor: "loss"  save_best_only: true },
    TerminateOnNaN
  ]
}
"""


class Save(pt.Callback):
    """Save the model inside an epoch, and after one."""

    display = True

    def __init__(self, folder):
        self.folder = folder

    def on_train_batch_end(self, batch, logs=None):
        if self.model.trainer.step == 5:
            self.model.save(self.folder / "inside.h5")

    def on_epoch_end(self, epoch, logs=None):
        trainer = self.model.trainer
        trainer.defer(lambda: self.model.save(self.folder / "between.h5"))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Saved models by name: inside an epoch, between two, at the end; and the weights at the end."""
    folder = tmp_path_factory.mktemp("states")
    model = model_from_text(TEXT)
    callbacks = [*model.fit_block.callbacks, Save(folder)]
    model.fit(X, Y, callbacks=callbacks, verbose=0, run_dir=folder)
    model.save(folder / "end.h5")
    return folder


def state_of(path):
    saved = checkpoint.load(path)
    weights = {n: a for n, a in saved.arrays.items() if not n.startswith(("optimizer:", "metric:"))}
    return saved.training, weights


def leaves(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """The paths of all values, of mappings and lists too."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from leaves(item, (*path, key))


def replaced(state: Any, path: tuple, value: Any) -> Any:
    state = copy.deepcopy(state)
    at = state
    for key in path[:-1]:
        at = at[key]
    if value is KeyError:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return state


def dotted(path: tuple) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).lstrip(".")


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


VALUES = {
    "null": None, "true": True, "text": "1", "negative": -1, "huge": 2**70, "too large": 10**15, "fraction": 0.5,
    "nan": float("nan"), "infinity": float("inf"), "list": [], "mapping": {}, "nested": nested(40),
    "mapping of null": {"a": None}, "array": np.zeros(2),
    "missing": KeyError,
}  # fmt: skip
LOG = r"fit\.callbacks\[0\]\.state\.history\.\w+\[\d+\]|fit\.ending\.logs\.\w+"
#: what is right, by path and mutation: everything else must be refused
RIGHT = [
    (r"set_rate", "null|fraction|too large"),
    (r"fit", "null"),
    (r"fit\.(stop_reason|validation|ending)", "null|missing"),
    (r"fit\.stop_reason", "text"),
    (r"fit\.loader\.data", "missing"),
    (r"fit\.(stopped|loader\.shuffle|loader\.drop_last)|fit\.callbacks\[3\]\.state\.appends", "true"),
    (r"fit\.(inside|over)", "true"),
    (r"fit\.seen|fit\.loader\.(samples|batch_size)", "too large"),
    (r"fit\.loader\.skipped", "list"),
    (r"fit\.callbacks\[5\]\.state", "mapping"),
    (r"step", "too large"),  # how many steps there were, only the training knew
    (r"passes", "too large"),
    (r"fit\.(loader\.data|validation)\.samples", "too large"),  # compared with the data when the fit resumes
    (r"fit\.(loader\.data|validation)\.sha256", "text"),
    (r"fit\.callbacks\[\d+\]\.class", "text"),  # compared with the callbacks when the fit resumes
    (LOG, "negative|too large|fraction|nan|infinity|list"),
    (r"fit\.callbacks\[0\]\.state\.history", "mapping"),
    (r"fit\.callbacks\[0\]\.state\.history\.\w+", "list|missing"),
    (r"fit\.callbacks\[0\]\.state\.history\.\w+\[\d+\]", "missing"),
    (r"fit\.ending\.(logs|seconds)", "mapping"),
    (r"fit\.ending\.seconds\.\w+", "too large|fraction|missing"),
    (r"fit\.ending\.logs\.\w+", "missing"),
    (r"fit\.callbacks\[\d+\]", "missing"),
    (r"fit\.callbacks", "list"),
    (r"fit\.callbacks\[\d+\]\.state\.best", "null|negative|too large|fraction|infinity"),
    (r"fit\.callbacks\[\d+\]\.state\.stopped_epoch|fit\.callbacks\[4\]\.state\.best_epoch", "null"),
    (r"fit\.callbacks\[4\]\.state\.best_epoch|fit\.callbacks\[3\]\.state\.appends", "missing"),
    (r"fit\.callbacks\[1\]\.state\.best_weights", "mapping"),
    (r"fit\.callbacks\[2\]\.state\.cooling", "too large"),
    (r"fit\.callbacks\[3\]\.state\.size", "too large"),
    (r"fit\.callbacks\[3\]\.state\.columns", "null|list"),
    (r"fit\.callbacks\[3\]\.state\.columns\[\d+\]", "text|missing"),
]


#: fields that others determine, in some of the files
DETERMINED = r"fit\.(seen|inside|over|loader\.batch_size)$"


def is_right(path: str, name: str) -> bool:
    return any(re.fullmatch(where, path) and re.fullmatch(names, name) for where, names in RIGHT)


@pytest.mark.parametrize("which", ["inside", "between", "end"])
def test_every_changed_value_is_refused_with_its_path(files, which):
    state, weights = state_of(files / f"{which}.h5")
    check_training_state(state, weights, 3)
    count, wrong = 0, []
    for path in leaves(state):
        for name, value in VALUES.items():
            count += 1
            try:
                check_training_state(replaced(state, path, value), weights, 3)
                refusal = None
            except StateError as error:
                refusal = str(error)
            if refusal is not None and re.match(DETERMINED, dotted(path)):
                continue  # right by itself, but not beside the others
            expected = not is_right(dotted(path), name)
            if (refusal is not None) != expected:
                wrong.append((dotted(path), name, refusal))
    assert not wrong, "\n".join(map(str, wrong))
    assert count > 800


@pytest.mark.parametrize("which", ["inside", "end"])
def test_unknown_names_are_refused(files, which):
    state, weights = state_of(files / f"{which}.h5")
    free = re.compile(r".*\.(history|logs|seconds)")
    for path in leaves(state):
        value = state
        for key in path:
            value = value[key]
        if isinstance(value, dict) and not free.fullmatch(dotted(path)):
            with pytest.raises(StateError):
                check_training_state(replaced(state, (*path, "another"), 1), weights, 3)


DISAGREEMENTS = {
    "fit.trained": {"inside": False, "trained": True},
    "fit.over": {"over": True},
    "fit.batch": {"batch": 6},
    "fit.epoch": {"epoch": 2},
    "fit.seen": {"seen": 100},
    "fit.loader.seed": {"loader.seed": 4},
    "fit.loader.position": {"loader.position": 6},
    "fit.loader.position (range)": {"loader.position": 400},
    "fit.loader.epoch": {"loader.epoch": 90},
    "fit.loader.skipped": {"loader.skipped": [3, 2]},
    "fit.loader.skipped (range)": {"loader.skipped": [10]},
    "fit.loader.skipped (twice)": {"loader.skipped": [2, 2]},
    "fit.callbacks[0].state.epoch": {"callbacks.0.state.epoch": [1]},
    "fit.callbacks[0].state.history.loss": {"callbacks.0.state.history": {"loss": [1.0, 2.0, 3.0]}},
    "fit.callbacks[1].state.wait": {"callbacks.1.state.wait": 7},
    "fit.callbacks[1].state.best_epoch": {"callbacks.1.state.best_epoch": 7},
    "fit.callbacks[1].state.best_weights": {
        "callbacks.1.state.best_weights": {"out/kernel": np.zeros((3, 1), np.float32)}
    },
    "fit.callbacks[1].state.best_weights.out/kernel": {
        "callbacks.1.state.best_weights": {"out/kernel": np.zeros((1, 3), np.float32)}
    },
    "fit.callbacks[1].state.best_weights.other": {"callbacks.1.state.best_weights": {"other": np.zeros(3, np.float32)}},
    "fit.callbacks[4].state.steps": {"callbacks.4.state.steps": 6},
}


@pytest.mark.parametrize("path", DISAGREEMENTS)
def test_fields_that_disagree_are_refused(files, path):
    state, weights = state_of(files / "inside.h5")
    for name, value in DISAGREEMENTS[path].items():
        keys = tuple(int(key) if key.isdigit() else key for key in name.split("."))
        state = replaced(state, ("fit", *keys), value)
    with pytest.raises(StateError, match=re.escape(path.partition(" ")[0]) + ": expected "):
        check_training_state(state, weights, 3)


def forged(files, tmp_path, which: str, change) -> str:
    """A file with a changed state and a right digest."""
    contents = container.read(files / f"{which}.h5")
    meta = dict(contents.meta)
    meta["training"] = change(meta["training"])
    container.write(tmp_path / "forged.h5", contents.arrays, meta)
    return str(tmp_path / "forged.h5")


def test_a_file_with_a_changed_state_is_a_damaged_file(files, tmp_path):
    rng = np.random.default_rng(7)
    for which in ("inside", "end"):
        state = json.loads(container.read(files / f"{which}.h5").meta["training"])
        paths = [path for path in leaves(state) if "$array" not in path]
        for number in rng.choice(len(paths), 12, replace=False):
            for name in ("text", "huge", "nested"):
                text = json.dumps(replaced(state, paths[number], VALUES[name]))
                if is_right(dotted(paths[number]), name):
                    continue
                file = forged(files, tmp_path, which, lambda _, text=text: text)
                with pytest.raises(ModelFileError, match=r"forged\.h5: its training state "):
                    pt.load_model(file)


@pytest.mark.parametrize("text", [
    "", "null", "1", "[]", "{}", "[" * 100_000, '{"step": ' + "9" * 5000 + "}", '{"fit": {"$array": "nowhere"}}',
    '{"fit": {"$array": ["state/0"]}}',
    '{"step": 1, "passes": 1, "set_rate": null, "fit": {"$array": "weights/out/kernel"}}',
    '{"step": 1, "step": 2}',
])  # fmt: skip
def test_a_state_that_is_no_state(files, tmp_path, text):
    file = forged(files, tmp_path, "inside", lambda _: text)
    with pytest.raises(ModelFileError, match="training state"):
        pt.load_model(file)


def test_changed_states_that_can_be_end_in_errors_of_their_own_or_train(files, tmp_path):
    """What is in range is taken, or refused by a message of prototorch when the fit resumes."""
    changes = {
        ("step",): 10**15, ("passes",): 2**50, ("fit", "loader", "samples"): 12, ("fit", "loader", "shuffle"): False,
        ("fit", "callbacks", 3, "state", "columns"): ["epoch", "=a"], ("fit", "callbacks", 3, "state", "size"): 2**50,
        ("fit", "callbacks", 1, "class"): "Other", ("fit", "callbacks"): [], ("set_rate",): 1e300,
        ("fit", "loader", "data", "sha256"): "x", ("fit", "callbacks", 1, "state", "best"): float("inf"),
    }  # fmt: skip
    for path, value in changes.items():
        file = forged(
            files, tmp_path, "inside", lambda text, p=path, v=value: json.dumps(replaced(json.loads(text), p, v))
        )
        with suppress(PrototorchError):
            pt.load_model(file).fit(X, Y, verbose=0, run_dir=tmp_path)


def test_files_without_the_fields_of_later_versions_go_on(files, tmp_path):
    def older(text: str) -> str:
        state = json.loads(text)
        for name in ("stop_reason", "ending", "validation"):
            del state["fit"][name]
        del state["fit"]["callbacks"][4]["state"]["best_epoch"], state["fit"]["callbacks"][3]["state"]["appends"]
        return json.dumps(state)

    model = pt.load_model(forged(files, tmp_path, "inside", older))
    model.fit(X, Y, verbose=0, run_dir=tmp_path)
    end = checkpoint.load(files / "end.h5").arrays
    assert all(np.array_equal(array, end[name]) for name, array in model.get_weights().items())


def test_a_callback_from_elsewhere_may_save_what_it_likes(files, tmp_path):
    class Counter(pt.Callback):
        count = 0

        def state(self):
            return {"count": {"deep": [1, "a", None, True, float("nan")]}, "array": np.arange(3)}

    model = model_from_text(TEXT)
    model.fit(X, Y, verbose=0, callbacks=[Counter()], epochs=1)
    model.save(tmp_path / "own.h5")
    state, weights = state_of(tmp_path / "own.h5")
    check_training_state(state, weights, 3)
    assert pt.load_model(tmp_path / "own.h5").trainer.state()["step"] == 3


def test_a_file_without_the_optimizers_state_is_not_resumed(files, tmp_path):
    contents = container.read(files / "inside.h5")
    arrays = {path: array for path, array in contents.arrays.items() if path != "optimizer/out/kernel/velocity"}
    assert len(arrays) == len(contents.arrays) - 1
    container.write(tmp_path / "forged.h5", arrays, contents.meta)
    with pytest.raises(TrainingError, match=r"1 arrays of the optimizer's state are not in the file .*out/kernel"):
        pt.load_model(tmp_path / "forged.h5").fit(X, Y, verbose=0, run_dir=tmp_path)


@pytest.mark.filterwarnings("default::RuntimeWarning")
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_reported_when_they_are_read(files, tmp_path, monkeypatch, capfd, value):
    monkeypatch.chdir(tmp_path)
    contents = container.read(files / "end.h5")
    arrays = {path: array.copy() for path, array in contents.arrays.items()}
    arrays["weights/out/kernel"][1] = value
    container.write(tmp_path / "forged.h5", arrays, contents.meta)
    told = r"forged\.h5 holds values that are not finite: the weight 'out/kernel' \(1 of 3 elements"
    with pytest.warns(RuntimeWarning, match=told):
        pt.load_model("forged.h5")
    with pytest.warns(RuntimeWarning, match=told):
        pt.load_model(files / "end.h5").load_weights("forged.h5")
    np.savez("x.npz", x=X, y=Y)
    for command in (["predict", "forged.h5", "x.npz"], ["evaluate", "forged.h5", "--data", "x.npz"]):
        with pytest.raises(SystemExit):
            main(command)
        assert re.search("warning: " + told, capfd.readouterr().err)
