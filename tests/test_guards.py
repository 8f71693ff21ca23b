"""The table guard x face: what one way of running a model refuses, every other refuses as well, and writes nothing.

A row is a guard, a column a face. The indices of ops are rows of their own: they are those of all ops that declare
bounds (`Op.index_bounds`). An op, a method of a model that takes data, or a face without a cell fails. A cell runs what
is to be refused, or is a reason why there is none, such as what PyTorch does there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import prototorch as pt
from prototorch import caffe
from prototorch.eager.layer_call import layer_state
from prototorch.engine.backends.devices import backend_for
from prototorch.errors import DataError, IndexRangeError, PrototorchError, RangeError, ShapeError, TrainingError
from prototorch.graph.ir import Graph
from prototorch.graph.plan import make_plan
from prototorch.model.load import model_from_text
from prototorch.ops.core import Op, use_interpreter
from prototorch.ops.operators import OPS
from prototorch.runtime.executor import make_executor
from prototorch.spec import Spec

F = pt.nn.functional

# ---------------------------------------------------------------- the indices of ops, in a plan and compiled

#: op -> specs of its inputs, attributes; the inputs that hold indices are those of `Op.index_bounds`
INDEX_OPS = {
    "advanced_index": (["float32[4, 3]", "int64[2]", "int64[2]"], {"axes": (0, 1)}),
    "bounded_index": (["int64[2]"], {"size": 3, "message": "no {}"}),
    "index_put": (["float32[4, 3]", "float32[4, 2]", "int64[2]"], {"axes": (1,)}),
    "one_hot": (["int32[2]"], {"classes": 3}),
    "sparse_softmax_cross_entropy": (["float32[2, 3]", "int64[2]"], {}),
    "take": (["float32[4, 3]", "int32[2]"], {}),
    "take_along_axis": (["float32[2, 3]", "int64[2, 1]"], {}),
}


def test_every_op_that_reads_indices_has_a_row():
    declaring = {n for n, op in OPS.items() if isinstance(op, Op) and type(op).index_bounds is not Op.index_bounds}
    assert declaring == INDEX_OPS.keys()


def spec_of(text):
    dtype, shape = text.rstrip("]").split("[")
    return Spec(tuple(map(int, shape.split(","))), dtype)


def op_inputs(name):
    texts, attrs = INDEX_OPS[name]
    specs = tuple(map(spec_of, texts))
    return specs, attrs, OPS[name].index_bounds(specs, attrs)


ROWS = [(n, k, end) for n in INDEX_OPS for k in op_inputs(n)[2] for end in (0, 1)]


@pytest.mark.parametrize("face", ["plan", "compile"])
@pytest.mark.parametrize(("name", "position", "end"), ROWS)
def test_a_plan_refuses_an_index_on_either_side(name, position, end, face):
    specs, attrs, bounds = op_inputs(name)
    arrays = [np.zeros(s.shape, s.dtype) for s in specs]
    state = np.zeros(3, np.float32)
    if face == "plan":
        graph = Graph()
        values = [graph.input(f"x{k}", s) for k, s in enumerate(specs)]
        weight = graph.state("w", Spec((3,), "float32"))
        with use_interpreter(graph):
            result, new = OPS[name](*values, **attrs), weight + 1
        backend = backend_for("cpu")
        run = make_executor(make_plan(graph, {"y": result}, {"w": new}, backend), backend, {"w": state})
        call = lambda: run({f"x{k}": a for k, a in enumerate(arrays)})  # noqa: E731
    else:
        weight = pt.from_numpy(state)

        @pt.compile
        def function(*tensors):
            weight.add_(1)
            return OPS[name](*tensors, **attrs)

        call = lambda: function(*map(pt.tensor, arrays))  # noqa: E731
    call()
    assert state.tolist() == [1, 1, 1]
    low, high = bounds[position]
    arrays[position].reshape(-1)[-1] = outside = (low - 1, high)[end]
    with pytest.raises(IndexRangeError, match=rf"{outside}\b"):
        call()
    assert state.tolist() == [1, 1, 1]
    arrays[position].reshape(-1)[-1] = (low, high - 1)[end]
    call()
    assert state.tolist() == [2, 2, 2]


# ---------------------------------------------------------------- PyTorch's functions of indices, eager and compiled

X = np.arange(6, dtype=np.float32).reshape(2, 3)
#: a function of x [2, 3] and an index -> an index outside, whether negative indices count from the end
FUNCTIONS = {
    "gather": (lambda x, i: x.gather(1, i), [[0], [3]], False),
    "take_along_dim": (lambda x, i: pt.take_along_dim(x, i, 1), [[0], [3]], True),
    "index_select": (lambda x, i: x.index_select(0, i), [0, 2], False),
    "take": (lambda x, i: x.take(i), [0, 6], True),
    "x[i]": (lambda x, i: x[i], [0, 2], True),
    "x[:, i]": (lambda x, i: x[:, i], [0, 3], True),
    "scatter": (lambda x, i: x.scatter(1, i, 1.0), [[0], [3]], False),
    "scatter_add": (lambda x, i: x.scatter_add(1, i, x), [[0], [3]], False),
    "scatter_reduce": (lambda x, i: x.scatter_reduce(1, i, x, "amax"), [[0], [3]], False),
    "index_add": (lambda x, i: x.index_add(0, i, x), [0, 2], False),
    "index_copy": (lambda x, i: x.index_copy(0, i, x), [0, 2], False),
    "index_fill": (lambda x, i: x.index_fill(0, i, 1.0), [0, 2], True),
    "index_reduce": (lambda x, i: x.index_reduce(0, i, x, "amax"), [0, 2], False),
    "index_put": (lambda x, i: x.index_put((i,), x), [0, 2], True),
    "put": (lambda x, i: x.put(i, x[0, :2]), [0, 6], True),
    "embedding": (lambda x, i: F.embedding(i, x), [0, 2], False),
    "embedding_bag": (lambda x, i: F.embedding_bag(i, x), [[0, 2]], False),
    "one_hot": (lambda x, i: F.one_hot(i, 3), [0, 3], False),
    "cross_entropy": (F.cross_entropy, [0, 3], False),
    "nll_loss": (F.nll_loss, [0, 3], False),
    "weighted": (lambda x, i: F.cross_entropy(x, i, weight=x[0], label_smoothing=0.1), [0, 3], False),
    "multi_margin_loss": (F.multi_margin_loss, [0, 3], False),
    "multilabel_margin_loss": (F.multilabel_margin_loss, [[0, -1, 0], [3, 0, 0]], None),
    "max_unpool1d": (lambda x, i: F.max_unpool1d(x[None], i[None], 2), [[0, 2, 4], [0, 2, 6]], False),
}


@pytest.mark.parametrize("run", [lambda f: f, pt.compile], ids=["eager", "compile"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_indices(name, run):
    work, index, wraps = FUNCTIONS[name]
    function = run(lambda x, i: work(x, i))
    outside = np.array(index)
    inside = np.where(outside == outside.max(), 0 if name != "max_unpool1d" else 5, outside)
    function(pt.tensor(X), pt.tensor(inside))
    with pytest.raises(RangeError, match=rf"{outside.max()}\b"):
        function(pt.tensor(X), pt.tensor(outside))
    if wraps is None:
        return
    negative = np.where(outside == outside.max(), -1, outside)
    if wraps:
        function(pt.tensor(X), pt.tensor(negative))
        negative = np.where(outside == outside.max(), -outside.max() - 1, outside)
    with pytest.raises(RangeError, match=r"-\d+"):
        function(pt.tensor(X), pt.tensor(negative))


def test_a_label_to_ignore_stays():
    labels = pt.tensor([0, -7])
    for run in (lambda f: f, pt.compile):
        loss = run(lambda x, y: F.cross_entropy(x, y, ignore_index=-7))(pt.tensor(X), labels)
        assert float(loss) == pytest.approx(float(F.cross_entropy(pt.tensor(X[:1]), labels[:1])))


# ---------------------------------------------------------------- guards of models

TEXT = """
input { name: "i"  shape: [2]  dtype: int32 }
%s
Flatten { }
Dense { name: "top"  units: 3 }
compile { loss: sparse_categorical_crossentropy { from_logits: true }  optimizer: SGD { learning_rate: 0.1 } }
"""
DIRECT = 'Embedding { name: "table"  input_dim: 5  output_dim: 4 }'
COMPUTED = 'Add { name: "twice"  bottom: ["i", "i"] }\nEmbedding { name: "table"  input_dim: 5  output_dim: 4 }'
INDICES, LABELS = np.array([[0, 1], [2, 0]], np.int32), np.array([0, 2], np.int32)


class EagerModule(pt.nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor, self.table, self.top = factor, pt.nn.Embedding(5, 4), pt.nn.Linear(8, 3)

    def forward(self, i):
        return self.top(pt.flatten(self.table(i * self.factor), 1))


def torch_face(factor, run):
    """A step of training; the weights; for indices and labels."""
    module = EagerModule(factor)
    optimizer = pt.optim.SGD(module.parameters(), lr=0.1)

    def step(i, y):
        optimizer.zero_grad()
        F.cross_entropy(module(i), y).backward()
        optimizer.step()

    step = run(step)
    return (
        lambda i, y: step(pt.tensor(i.astype(np.int64)), pt.tensor(y.astype(np.int64))),
        lambda: [p.detach().numpy() for p in module.parameters()],
        lambda: module.table.weight.detach().numpy().fill(np.nan),
    )


def graph_face(factor):
    i, y = pt.Input((2,), dtype="int64"), pt.Input((1,), dtype="int64")
    table = pt.layers.Embedding(input_dim=5, output_dim=3)
    loss = -table(i * factor).sum(1).log_softmax(1).gather(1, y).mean()
    graph = pt.Graph([i, y], [loss], [pt.optimizers.SGD(learning_rate=0.1).minimize(loss)])
    graph(INDICES.astype(np.int64), LABELS.astype(np.int64)[:, None])  # which makes the table
    return (
        lambda i, y: graph(i.astype(np.int64), y.astype(np.int64)[:, None]),
        lambda: [w.detach().numpy() for w in layer_state(table).weights.values()],
        lambda: next(iter(layer_state(table).weights.values())).detach().numpy()[:3].fill(np.nan),
    )


def model_face(call):
    def face(factor):
        model = model_from_text(TEXT % (COMPUTED if factor == 2 else DIRECT))
        model.build()

        def spoil():
            model.weights["table/embeddings"] = np.full((5, 4), np.nan, np.float32)

        return (
            lambda i, y: call(model, i, y),
            lambda: [model.weights[name] for name in sorted(model.weights)],
            spoil,
        )

    return face


class Watcher(pt.callbacks.Callback):
    """A callback of the user: guards hold whatever is called between steps."""


def fit(model, i, y, **options):
    model.fit(i, y, epochs=1, batch_size=2, verbose=0, validation_split=0, shuffle=False, **options)


NET = """
input: "i" input_shape { dim: 2 dim: 2 }
input: "label" input_shape { dim: 2 }
layer { name: "table" type: "Embed" bottom: "i" top: "rows" embed_param { input_dim: 5 num_output: 4 bias_term: false
        weight_filler { type: "gaussian" } } }
layer { name: "top" type: "InnerProduct" bottom: "rows" top: "top" inner_product_param { num_output: 3
        weight_filler { type: "gaussian" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "top" bottom: "label" top: "loss" }
"""


def caffe_face(call, folder):
    (folder / "net.prototxt").write_text(NET)
    (folder / "solver.prototxt").write_text(
        f'net: "{folder}/net.prototxt" base_lr: 0.1 lr_policy: "fixed" max_iter: 1 snapshot_after_train: false'
    )
    solver = caffe.SGDSolver(str(folder / "solver.prototxt"))

    def run(i, y):
        solver.net.blobs["i"].reshape(*i.shape)
        solver.net.blobs["i"].data[...], solver.net.blobs["label"].data[...] = i, y
        call(solver)

    def spoil():
        solver.net.params["table"][0].data[...] = np.nan

    return run, lambda: [b.data.copy() for blobs in solver.net.params.values() for b in blobs], spoil


GENERATED = """
input { name: "text"  shape: [5]  dtype: int32 }
preprocess { TextVectorization { split: character  standardize: none  vocabulary: ["a", "b", "c"] } }
Embedding { name: "next"  input_dim: 5  output_dim: 5 }
compile { loss: sparse_categorical_crossentropy { from_logits: true } }
"""


@dataclass(frozen=True)
class Face:
    """A way to run a model: how it is made, by a factor of its indices and a folder; whether it reads labels."""

    make: Callable
    trains: bool = True
    reads_labels: bool = True


FACES = {
    "eager": Face(lambda factor, _: torch_face(factor, lambda f: f)),
    "compile": Face(lambda factor, _: torch_face(factor, pt.compile)),
    "graph": Face(lambda factor, _: graph_face(factor)),
    "fit": Face(lambda factor, _: model_face(fit)(factor)),
    "callbacks": Face(lambda factor, _: model_face(lambda m, i, y: fit(m, i, y, callbacks=[Watcher()]))(factor)),
    "train_on_batch": Face(lambda factor, _: model_face(lambda m, i, y: m.train_on_batch(i, y))(factor)),
    "evaluate": Face(lambda factor, _: model_face(lambda m, i, y: m.evaluate(i, y, verbose=0))(factor), trains=False),
    "test_on_batch": Face(lambda factor, _: model_face(lambda m, i, y: m.test_on_batch(i, y))(factor), trains=False),
    "predict": Face(lambda factor, _: model_face(lambda m, i, y: m.predict(i, verbose=0))(factor), False, False),
    "predict_on_batch": Face(lambda factor, _: model_face(lambda m, i, y: m.predict_on_batch(i))(factor), False, False),
    "caffe forward": Face(lambda _, folder: caffe_face(lambda s: s.net.forward(), folder), trains=False),
    "caffe step": Face(lambda _, folder: caffe_face(lambda s: s.step(1), folder)),
    "caffe solve": Face(lambda _, folder: caffe_face(lambda s: s.solve(), folder)),
}
#: methods of a model that take data, and those of a solver that train, are faces
IN_OTHER_TESTS = {"generate": "test_a_text_whose_token_has_no_row"}
NO_COMPUTED = "Caffe's nets have no layer of integers before Embed"


def test_every_method_that_takes_data_is_a_face():
    methods = {
        name
        for name, method in inspect.getmembers(pt.Model, inspect.isfunction)
        if not name.startswith("_") and next(iter([*inspect.signature(method).parameters][1:]), "") == "x"
    }
    solver = {"step", "solve"} & set(dir(caffe.SGDSolver))
    assert methods | {f"caffe {name}" for name in solver} <= FACES.keys()
    assert all(name in globals() for name in IN_OTHER_TESTS.values())
    assert IN_OTHER_TESTS.keys() <= set(dir(pt))


def replaced(array, value):
    changed = array.copy()
    changed.reshape(-1)[-1] = value
    return changed


#: guard -> (factor of the indices, the indices, the labels, errors), None where the face is left out with a reason
GUARDS = {
    "index too large": (1, replaced(INDICES, 5), LABELS, (RangeError, DataError)),
    "index negative": (1, replaced(INDICES, -1), LABELS, (RangeError, DataError)),
    "computed index": (2, replaced(INDICES, 3), LABELS, (RangeError,)),
    "label too large": (1, INDICES, replaced(LABELS, 3), (RangeError, DataError)),
    "label negative": (1, INDICES, replaced(LABELS, -1), (RangeError, DataError)),
    "integer outside its type": (1, replaced(INDICES.astype(np.int64), 2**40), LABELS, (RangeError, DataError)),
    "columns": (1, np.concatenate([INDICES, INDICES[:, :1]], axis=1), LABELS, (ShapeError, DataError)),
}
LEFT_OUT = {
    **{("computed index", f"caffe {name}"): NO_COMPUTED for name in ("forward", "step", "solve")},
    ("columns", "caffe forward"): "Caffe reshapes its blobs; InnerProduct refuses",
}


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("face", FACES)
def test_guard_of_a_face(guard, face, tmp_path):
    factor, indices, labels, errors = GUARDS[guard]
    reads = FACES[face]
    if (guard, face) in LEFT_OUT and guard == "computed index":
        assert LEFT_OUT[guard, face]
        return
    call, weights, _ = reads.make(factor, tmp_path)
    if reads.reads_labels or not guard.startswith("label"):
        before = [np.array(w) for w in weights()]
        with pytest.raises(PrototorchError) as caught:
            call(indices, labels)
        assert isinstance(caught.value, errors), repr(caught.value)
        assert all(np.array_equal(a, b) for a, b in zip(before, weights(), strict=True))
    if guard != "columns":
        before = [np.array(w) for w in weights()]
        call(INDICES, LABELS)
        changed = not all(np.array_equal(a, b) for a, b in zip(before, weights(), strict=True))
        assert changed == reads.trains


#: what writes the weights that PyTorch would write, or writes none and gives what it computes
AS_TORCH = {
    "eager": "an optimizer steps whatever the gradients are",
    "compile": "as eager",
    **dict.fromkeys(
        ("evaluate", "test_on_batch", "predict", "predict_on_batch", "caffe forward"), "nothing is trained"
    ),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("face", FACES)
def test_a_loss_that_is_not_finite(face, tmp_path):
    call, weights, spoil = FACES[face].make(1, tmp_path)
    spoil()
    before = [np.array(w) for w in weights()]
    if face in AS_TORCH:
        call(INDICES, LABELS)
        same = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(before, weights(), strict=True))
        assert same != FACES[face].trains, AS_TORCH[face]
        return
    with pytest.raises(TrainingError, match="finite"):
        call(INDICES, LABELS)
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(before, weights(), strict=True))


def test_a_text_whose_token_has_no_row():
    model = model_from_text(GENERATED)
    model.build()
    assert isinstance(pt.generate(model, "c", 1), str)
    model = model_from_text(GENERATED.replace("input_dim: 5", "input_dim: 4"))
    model.build()
    with pytest.raises(DataError, match="'next' expects integers from 0 to 3"):
        pt.generate(model, "c", 1)


def test_a_saved_function_refuses_as_the_one_that_was_saved(tmp_path):
    table, indices = pt.tensor(X), pt.tensor([0, 1])
    function = pt.compile(lambda i: F.embedding(i, table) * 2)
    function(indices)
    function.save(tmp_path / "f.h5", indices)
    loaded = pt.load_compiled(tmp_path / "f.h5")
    np.testing.assert_array_equal(loaded(indices).numpy(), 2 * X)
    with pytest.raises(IndexRangeError, match="got 2"):
        loaded(pt.tensor([0, 2]))
