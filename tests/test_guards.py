"""The table guard x face: what one way of running a model refuses, every other refuses as well, and writes nothing.

A row is a guard, a column a face. The values of ops are rows of their own: they are those of all ops that declare
bounds (`Op.value_bounds`). An op, a method of a model that takes data, or a face without a cell fails. A cell runs what
is to be refused, or is a reason why there is none, such as what PyTorch does there.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import prototorch as pt
from prototorch import caffe
from prototorch.eager.layer_call import layer_state
from prototorch.engine.backends.devices import backend_for
from prototorch.errors import (
    DataError,
    IndexRangeError,
    PrototorchError,
    RangeError,
    ShapeError,
    TrainingError,
    UsageError,
)
from prototorch.graph.ir import Graph
from prototorch.graph.plan import make_plan
from prototorch.model.load import model_from_text
from prototorch.ops.core import Op, use_interpreter
from prototorch.ops.operators import OPS
from prototorch.runtime.executor import make_executor
from prototorch.spec import Spec

F = pt.nn.functional

# ---------------------------------------------------------------- the values of ops, in a plan and compiled

#: op -> specs of its inputs, attributes; the inputs whose values have bounds are those of `Op.value_bounds`
VALUE_OPS = {
    "advanced_index": (["float32[4, 3]", "int64[2]", "int64[2]"], {"axes": (0, 1)}),
    "bounded_index": (["int64[2]"], {"size": 3, "message": "no {}"}),
    "bounded_values": (["float32[2]"], {"low": 0, "high": 1, "message": "no {}"}),
    "floor_divide": (["int32[2]", "int32[2]"], {}),
    "fmod": (["int64[2]", "int64[2]"], {}),
    "index_put": (["float32[4, 3]", "float32[4, 2]", "int64[2]"], {"axes": (1,)}),
    "one_hot": (["int32[2]"], {"classes": 3}),
    "remainder": (["uint8[2]", "uint8[2]"], {}),
    "sparse_softmax_cross_entropy": (["float32[2, 3]", "int64[2]"], {}),
    "take": (["float32[4, 3]", "int32[2]"], {}),
    "take_along_axis": (["float32[2, 3]", "int64[2, 1]"], {}),
}


def test_every_op_with_bounds_has_a_row():
    declaring = {n for n, op in OPS.items() if isinstance(op, Op) and type(op).value_bounds is not Op.value_bounds}
    assert declaring == VALUE_OPS.keys()


def spec_of(text):
    dtype, shape = text.rstrip("]").split("[")
    return Spec(tuple(map(int, shape.split(","))), dtype)


def op_inputs(name):
    texts, attrs = VALUE_OPS[name]
    specs = tuple(map(spec_of, texts))
    return specs, attrs, OPS[name].value_bounds(specs, attrs)


def ends_of(bounds):
    """A valid and an invalid value for each limit."""
    ends = [(0, -1 if bounds.are_indices else -0.5)] if bounds.low is not None else []
    ends += [(bounds.high, bounds.high + 1)] if bounds.high is not None else []
    ends += [(bounds.high, np.nan)] if bounds.high is not None and not bounds.are_indices else []
    return [*ends, (3, 0)] if bounds.excludes_zero else ends


ROWS = [(n, k, end) for n in VALUE_OPS for k, bounds in op_inputs(n)[2].items() for end in ends_of(bounds)]


@pytest.mark.parametrize("face", ["plan", "compile"])
@pytest.mark.parametrize(("name", "position", "end"), ROWS)
def test_a_plan_refuses_a_value_on_either_side(name, position, end, face):
    specs, attrs, bounds = op_inputs(name)
    arrays = [np.ones(s.shape, s.dtype) for s in specs]
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
    inside, outside = end
    arrays[position].reshape(-1)[-1] = outside
    error, words = (IndexRangeError, rf"{outside}\b") if bounds[position].are_indices else (UsageError, f"no {outside}")
    with pytest.raises(error, match="integers by 0" if outside == 0 else words):
        call()
    assert state.tolist() == [1, 1, 1]
    arrays[position].reshape(-1)[-1] = inside
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


# ---------------------------------------------------------------- PyTorch's functions that take some values only

T = pt.tensor
#: function -> valid arguments, and arguments that it refuses
VALUE_FUNCTIONS = {
    "a // b": (lambda a, b: a // b, (T([4, 5]), T([2, -3])), [(T([4, 5]), T([2, 0])), (T([4, 5]), T(0))]),
    "a % b": (lambda a, b: a % b, (T([4, 5]), T([2, -3])), [(T([4, 5]), T([2, 0]))]),
    "fmod": (pt.fmod, (T([4, 5]), T([2, -3])), [(T([4, 5]), T([2, 0]))]),
    "div": (lambda a, b: pt.div(a, b, rounding_mode="trunc"), (T([4, 5]), T([2, -3])), [(T([4, 5]), T([2, 0]))]),
    "floor_divide of bytes": (
        lambda a, b: a.floor_divide(b), (T([4], dtype=pt.uint8), T([2], dtype=pt.uint8)),
        [(T([4], dtype=pt.uint8), T([256]).to(pt.uint8))],
    ),
    "binary_cross_entropy": (
        F.binary_cross_entropy, (T([0.0, 1.0]), T([1.0, 0.0])),
        [(T([0.5, bad]), T([1.0, 0.0])) for bad in (-1e-6, 1.001, float("nan"), float("inf"))],
    ),
    "gaussian_nll_loss": (
        F.gaussian_nll_loss, (T([0.5]), T([1.0]), T([0.0])), [(T([0.5]), T([1.0]), T([-1.0]))]
    ),
    "embedding_bag": (
        lambda i, o: F.embedding_bag(i, T(X), o), (T([0, 1, 1]), T([0, 3])),
        [(T([0, 1, 1]), T(offsets)) for offsets in ([1, 2], [0, 4], [0, -1])],
    ),
    "quantile": (pt.quantile, (T([1.0, 2.0]), T(1.0)), [(T([1.0, 2.0]), T(1.5)), (T([1.0, 2.0]), T(-0.1))]),
    "nanquantile": (pt.nanquantile, (T([1.0, 2.0]), T(0.0)), [(T([1.0, 2.0]), T(1.5))]),
    "bernoulli": (pt.bernoulli, (T([0.0, 1.0]),), [(T([0.5, 1.5]),), (T([-0.5, 0.5]),)]),
    "normal": (lambda std: pt.normal(0.0, std), (T([0.0, 1.0]),), [(T([1.0, -1.0]),)]),
    "cov": (
        lambda x, w: pt.cov(x, aweights=w), (T(X), T([1.0, 2.0, 1.0])), [(T(X), T([1.0, -2.0, 1.0]))]
    ),
    "cov of counts": (lambda x, w: pt.cov(x, fweights=w), (T(X), T([1, 2, 1])), [(T(X), T([1, -2, 1]))]),
    "masked_scatter": (
        pt.masked_scatter, (T([1, 2]), T([True, False]), T([5])), [(T([1, 2]), T([True, True]), T([5]))]
    ),
    "masked_fill": (
        pt.masked_fill, (T([1], dtype=pt.uint8), T([True]), T(255)),
        [(T([1], dtype=pt.uint8), T([True]), T(number)) for number in (256, -300, 300.0, float("nan"))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("run", [lambda f: f, pt.compile], ids=["eager", "compile"])
@pytest.mark.parametrize("name", VALUE_FUNCTIONS)
def test_functions_of_values(name, run):
    work, valid, refused = VALUE_FUNCTIONS[name]
    counter = pt.zeros(1)

    def function(*arguments):
        result = work(*arguments)
        counter.add_(1)
        return result

    function = run(function)
    function(*valid)
    for arguments in refused:
        with pytest.raises((UsageError, ShapeError)):
            function(*arguments)
    assert float(counter) == 1
    function(*valid)
    assert float(counter) == 2


def run_as_graph(work, arguments, count):
    """A function as a static graph that also counts its runs; numbers are constants of it."""
    fed = [x for x in arguments if x.ndim]
    symbols = [pt.Input(tuple(x.shape[1:]), dtype=str(x.dtype).removeprefix("prototorch.")) for x in fed]
    given = iter(symbols)
    result = work(*(next(given) if x.ndim else x for x in arguments))
    pt.Graph(symbols, [result], [count.assign_add(1.0)])(*(x.numpy() for x in fed))


@pytest.mark.parametrize("name", VALUE_FUNCTIONS)
def test_functions_of_values_in_a_static_graph(name):
    work, valid, refused = VALUE_FUNCTIONS[name]
    count = pt.Variable(0.0, trainable=False)
    run_as_graph(work, valid, count)
    for arguments in refused:
        with pytest.raises((UsageError, ShapeError)):
            run_as_graph(work, arguments, count)
    assert count.value == 1


def test_no_function_checks_values_without_the_plan():
    """A function that refuses values says so by `bounded` or `bounded_values`, which a plan counts; those that need the
    values themselves are refused where they are traced."""
    package = Path(pt.__file__).parent
    condition = re.compile(r"if [^\n]*(has_memory|\"backend\"\)) and[^\n]*:\n\s+raise")
    for folder in ("eager/functions", "nn", "linalg", "special", "losses", "layers", "metrics"):
        for path in (package / folder).rglob("*.py"):
            text = path.read_text()
            at = [text[: m.start()].count("\n") + 1 for m in condition.finditer(text)]
            assert (path.name, at) == (path.name, []) or path.name == "indexed_writes.py", at


# ---------------------------------------------------------------- integers that overflow: as torch, in every face

OVERFLOWS = {
    "a + b": lambda a, b: a + b,
    "a - b": lambda a, b: a - b,
    "a * b": lambda a, b: a * b,
    "a * a": lambda a, b: a * a,
    "-a": lambda a, b: -a,
    "abs": lambda a, b: a.abs(),
    "a << 1": lambda a, b: a << 1,
    "a + 1": lambda a, b: a + 1,
    "a ** 3": lambda a, b: a**3,
    "sum": lambda a, b: a.sum(),
    "cumsum": lambda a, b: a.cumsum(0),
    "prod": lambda a, b: a.prod(),
    "a // b": lambda a, b: a // b,
    "a / b": lambda a, b: a / b,
    "to int8": lambda a, b: a.to(a.to(b.dtype).dtype),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("run", [lambda f: f, pt.compile], ids=["eager", "compile"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("name", OVERFLOWS)
def test_integers_that_overflow_are_as_in_torch(name, dtype, run):
    torch = pytest.importorskip("torch")
    limits = np.iinfo(dtype)
    a = np.array([limits.min, limits.max, limits.max // 2 + 1, 3], dtype)
    b = np.array([1 if limits.min == 0 else -1, 2, limits.max, 5], dtype)
    function = OVERFLOWS[name]
    expected = function(torch.tensor(a), torch.tensor(b)).numpy()
    result = run(lambda x, y: function(x, y))(pt.tensor(a), pt.tensor(b)).numpy()
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


# ---------------------------------------------------------------- guards of models

TEXT = """
input { name: "i"  shape: [2]  dtype: int32 }
%s
Flatten { }
Dense { name: "top"  units: 3 }
compile { loss: sparse_categorical_crossentropy { from_logits: true }  optimizer: SGD { learning_rate: 0.1 } }
"""
DIRECT = 'Embedding { name: "table"  input_dim: 5  output_dim: 4 }'
#: what is looked up in the table, of the input i -> layers of a text, and the same of tensors
COMPUTED = {"i": ("", lambda i: i), "2 * i": ('Add { bottom: ["i", "i"] }', lambda i: i * 2)}
COMPUTED["i % i"] = ('Mod { bottom: ["i", "i"] }', lambda i: i % i)
INDICES, LABELS = np.array([[0, 1], [2, 0]], np.int32), np.array([0, 2], np.int32)


class EagerModule(pt.nn.Module):
    def __init__(self, index):
        super().__init__()
        self.index, self.table, self.top = index, pt.nn.Embedding(5, 4), pt.nn.Linear(8, 3)

    def forward(self, i):
        return self.top(pt.flatten(self.table(self.index(i)), 1))


def torch_face(computed, run):
    """A step of training; the weights; for indices and labels."""
    module = EagerModule(COMPUTED[computed][1])
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


def graph_face(computed):
    i, y = pt.Input((2,), dtype="int64"), pt.Input((1,), dtype="int64")
    table = pt.layers.Embedding(input_dim=5, output_dim=3)
    loss = -table(COMPUTED[computed][1](i)).sum(1).log_softmax(1).gather(1, y).mean()
    graph = pt.Graph([i, y], [loss], [pt.optimizers.SGD(learning_rate=0.1).minimize(loss)])
    graph(np.ones((2, 2), np.int64), LABELS.astype(np.int64)[:, None])  # which makes the table
    return (
        lambda i, y: graph(i.astype(np.int64), y.astype(np.int64)[:, None]),
        lambda: [w.detach().numpy() for w in layer_state(table).weights.values()],
        lambda: next(iter(layer_state(table).weights.values())).detach().numpy()[:3].fill(np.nan),
    )


def model_face(call):
    def face(computed):
        model = model_from_text(TEXT % f"{COMPUTED[computed][0]}\n{DIRECT}")
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
    """A way to run a model: how it is made, by what is looked up in its table and a folder; whether it reads labels."""

    make: Callable
    trains: bool = True
    reads_labels: bool = True


#: a method of a model that takes data -> a call of it
MODEL_CALLS = {
    "fit": fit,
    "callbacks": lambda m, i, y: fit(m, i, y, callbacks=[Watcher()]),
    "train_on_batch": lambda m, i, y: m.train_on_batch(i, y),
    "evaluate": lambda m, i, y: m.evaluate(i, y, verbose=0),
    "test_on_batch": lambda m, i, y: m.test_on_batch(i, y),
    "predict": lambda m, i, y: m.predict(i, verbose=0),
    "predict_on_batch": lambda m, i, y: m.predict_on_batch(i),
}
TRAINING, PREDICTION = ("fit", "callbacks", "train_on_batch"), ("predict", "predict_on_batch")
FACES = {
    "eager": Face(lambda computed, _: torch_face(computed, lambda f: f)),
    "compile": Face(lambda computed, _: torch_face(computed, pt.compile)),
    "graph": Face(lambda computed, _: graph_face(computed)),
    **{
        name: Face(lambda computed, _, call=call: model_face(call)(computed), name in TRAINING, name not in PREDICTION)
        for name, call in MODEL_CALLS.items()
    },
    "caffe forward": Face(lambda _, folder: caffe_face(lambda s: s.net.forward(), folder), trains=False),
    "caffe step": Face(lambda _, folder: caffe_face(lambda s: s.step(1), folder)),
    "caffe solve": Face(lambda _, folder: caffe_face(lambda s: s.solve(), folder)),
}
#: methods of a model that take data, and those of a solver that train, are faces
IN_OTHER_TESTS = {"generate": "test_a_text_whose_token_has_no_row"}
#: methods that give what a face runs over, and compute nothing
PARTS_OF_FACES = {"evaluation_batches": "evaluate"}


def test_every_method_that_takes_data_is_a_face():
    methods = {
        name
        for name, method in inspect.getmembers(pt.Model, inspect.isfunction)
        if not name.startswith("_") and next(iter([*inspect.signature(method).parameters][1:]), "") == "x"
    }
    solver = {"step", "solve"} & set(dir(caffe.SGDSolver))
    assert PARTS_OF_FACES.keys() <= methods
    assert set(PARTS_OF_FACES.values()) <= FACES.keys()
    assert methods - PARTS_OF_FACES.keys() | {f"caffe {name}" for name in solver} <= FACES.keys()
    assert all(name in globals() for name in IN_OTHER_TESTS.values())
    assert IN_OTHER_TESTS.keys() <= set(dir(pt))


def replaced(array, value):
    changed = array.copy()
    changed.reshape(-1)[-1] = value
    return changed


#: guard -> (what is looked up, valid indices, the indices, the labels, errors)
GUARDS = {
    "index too large": ("i", INDICES, replaced(INDICES, 5), LABELS, (RangeError, DataError)),
    "index negative": ("i", INDICES, replaced(INDICES, -1), LABELS, (RangeError, DataError)),
    "computed index": ("2 * i", INDICES, replaced(INDICES, 3), LABELS, (RangeError,)),
    "computed index that overflows": ("2 * i", INDICES, replaced(INDICES, 2**30), LABELS, (RangeError,)),
    "division by 0": ("i % i", INDICES + 1, replaced(INDICES + 1, 0), LABELS, (UsageError,)),
    "label too large": ("i", INDICES, INDICES, replaced(LABELS, 3), (RangeError, DataError)),
    "label negative": ("i", INDICES, INDICES, replaced(LABELS, -1), (RangeError, DataError)),
    "integer outside its type": (
        "i", INDICES, replaced(INDICES.astype(np.int64), 2**40), LABELS, (RangeError, DataError)
    ),
    "fraction": ("i", INDICES, replaced(INDICES.astype(np.float32), 1.5), LABELS, (UsageError, DataError)),
    "number of columns": (
        "i", INDICES, np.concatenate([INDICES, INDICES[:, :1]], axis=1), LABELS, (ShapeError, DataError)
    ),
}  # fmt: skip
#: the faces that a guard does not have, with the reason
LEFT_OUT = {
    **{
        (guard, f"caffe {name}"): "Caffe's nets have no layer of integers before Embed"
        for name in ("forward", "step", "solve")
        for guard in ("computed index", "computed index that overflows", "division by 0")
    },
    **{("fraction", f"caffe {name}"): "as Caffe, whose blobs are floats" for name in ("forward", "step", "solve")},
    **{("fraction", name): "tensors have the type of the program" for name in ("eager", "compile", "graph")},
}


@pytest.mark.filterwarnings("ignore:data. the values of the input")
@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("face", FACES)
def test_guard_of_a_face(guard, face, tmp_path):
    if (guard, face) in LEFT_OUT:
        assert LEFT_OUT[guard, face]
        return
    computed, valid, indices, labels, errors = GUARDS[guard]
    reads = FACES[face]
    call, weights, _ = reads.make(computed, tmp_path)
    if reads.reads_labels or not guard.startswith("label"):
        before = [np.array(w) for w in weights()]
        with pytest.raises(PrototorchError) as caught:
            call(indices, labels)
        assert isinstance(caught.value, errors), repr(caught.value)
        assert all(np.array_equal(a, b) for a, b in zip(before, weights(), strict=True))
    if guard != "number of columns":
        before = [np.array(w) for w in weights()]
        call(valid, LABELS)
        changed = not all(np.array_equal(a, b) for a, b in zip(before, weights(), strict=True))
        assert changed == reads.trains


#: why a face has no columns with names
POSITIONS = {
    **dict.fromkeys(("eager", "compile", "graph"), "as torch: a tensor has no columns with names"),
    **dict.fromkeys(("caffe forward", "caffe step", "caffe solve"), "as Caffe: blobs have no columns with names"),
}


@pytest.mark.parametrize("face", FACES)
def test_exchanged_columns_of_a_face(face):
    """A model that was trained on columns reads a table by their names, in whatever order they are."""
    if face in POSITIONS:
        assert POSITIONS[face]
        return
    first, second = (model_from_text(TEXT % DIRECT) for _ in range(2))
    first.fit({"a": INDICES[:, 0], "b": INDICES[:, 1]}, LABELS, verbose=0, validation_split=0)
    second.fit(INDICES, LABELS, verbose=0, validation_split=0)
    for model in (first, second):
        for name in model.weights:
            model.weights[name] = second.weights[name]
    call = MODEL_CALLS[face]
    result = call(first, {"b": INDICES[:, 1], "a": INDICES[:, 0]}, LABELS)
    expected = call(second, INDICES, LABELS)
    if isinstance(expected, np.ndarray | tuple):
        np.testing.assert_array_equal(result, expected)
    for name in first.weights:
        np.testing.assert_array_equal(first.weights[name], second.weights[name])
    with pytest.raises(DataError, match="has no column 'a', which the model was trained on"):
        call(first, {"b": INDICES[:, 1], "c": INDICES[:, 0]}, LABELS)


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
    call, weights, spoil = FACES[face].make("i", tmp_path)
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
    with pytest.raises(DataError, match=r"next: .*index 4 is out of range: the valid ones are 0 to 3"):
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
