"""The fields of Caffe's solvers: nets and states, tests, logs, learning rates, callbacks, mistakes."""

from __future__ import annotations

import math
import shutil

import h5py
import numpy as np
import pytest

from prototorch import caffe
from prototorch.caffe.interop.solver_fields import LearningRate, translate_schedule
from prototorch.caffe.solver import get_solver
from prototorch.caffe.text.reader import read_message
from prototorch.errors import PrototorchError, TextError, TrainingError, WeightsError
from tests.caffe.golden import GOLDEN

SOLVERS = GOLDEN / "solvers"
BASE = 'base_lr: 0.1 lr_policy: "fixed" momentum: 0.9 '
INLINE = """
  name: "inline"
  layer { name: "in" type: "HDF5Data" top: "data" top: "label"
          hdf5_data_param { source: "solver_data_list.txt" batch_size: 8 } }
  layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
          inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
  layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" include { stage: "score" } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" loss_weight: 2 }
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with the data of the golden runs."""
    for name in ("solver_data.h5", "solver_data_list.txt", "mlp.prototxt"):
        shutil.copy(SOLVERS / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def make(folder):
    """Makes a solver of a text, with its log in `lines`."""
    made = []

    def call(text, **options):
        (folder / "solver.prototxt").write_text(text)
        lines = []
        solver = get_solver("solver.prototxt", write=lines.append, **options)
        solver.lines = lines
        made.append(solver)
        return solver

    yield call
    for solver in made:
        solver.close()


def test_inline_nets_with_states(make):
    text = f"{BASE} random_seed: 1 max_iter: 3 display: 1 test_interval: 2 test_iter: 3 test_iter: 2 "
    solver = make(
        f'{text} net_param {{ {INLINE} }} test_state {{ stage: "score" }} test_state {{ }} train_state {{ level: 1 }} '
        "snapshot_after_train: false test_compute_loss: true average_loss: 2"
    )
    solver.solve()
    assert [list(net.caffe_net.outputs) for net in solver.test_nets] == [["accuracy", "loss"], ["loss"]]
    lines = solver.lines
    assert lines[0] == "Iteration 0, Testing net (#0)"
    assert lines[1].startswith("Test loss: ")
    assert lines[2].startswith("    Test net output #0: accuracy = ")
    assert lines[4] == "Iteration 0, Testing net (#1)"
    assert sum(line.startswith("Iteration 2, Testing") for line in lines) == 2
    train = [line for line in lines if "Train net output" in line]
    losses = [float(line.split(" = ")[1].split(" (")[0]) for line in train]
    shown = [float(line.rpartition("loss = ")[2]) for line in lines if ", loss = " in line and "output" not in line]
    assert float(train[0].rpartition("(* 2 = ")[2].split()[0]) == pytest.approx(2 * losses[0], rel=1e-5)
    np.testing.assert_allclose(shown[:3], [2 * losses[0], losses[0] + losses[1], losses[1] + losses[2]], rtol=1e-5)
    assert lines[-1] == "Optimization Done."
    ours = solver.net.params["ip"][0].data
    for net in solver.test_nets:
        assert np.shares_memory(net.params["ip"][0].data, ours)


def test_a_test_is_the_mean_over_its_batches(make):
    solver = make(f"{BASE} test_interval: 5 test_iter: 3 net_param {{ {INLINE} }} random_seed: 2")
    result = solver.test(0)
    weights, bias = (np.array(blob.data) for blob in solver.net.params["ip"])
    with h5py.File("solver_data.h5") as file:
        data, label = file["data"][:], file["label"][:].reshape(-1).astype(int)
    scores = data.reshape(len(data), -1) @ weights.T + bias
    scores = scores - scores.max(axis=1, keepdims=True)
    log_probs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    expected = -log_probs[np.arange(len(label)), label].mean()
    np.testing.assert_allclose(result.outputs["loss"], expected, rtol=1e-5)
    np.testing.assert_allclose(result.loss, 2 * expected, rtol=1e-5)


def test_separate_files_and_test_nets(make, folder):
    (folder / "test.prototxt").write_text(INLINE)
    text = f'{BASE} train_net_param {{ {INLINE} }} test_net: "test.prototxt" test_net_param {{ {INLINE} }}'
    solver = make(f"{text} test_iter: 1 test_iter: 1 test_interval: 1")
    assert len(solver.test_nets) == 2
    for wrong, message in (
        (f"{text} test_iter: 1 test_interval: 1", "2 test nets and 1 values of test_iter"),
        (f"{text} test_iter: 1 test_iter: 1", "test_interval"),
        (f'{text} net: "test.prototxt" test_iter: 1 test_iter: 1 test_interval: 1', "net and train_net_param"),
        (BASE, "no train net"),
        (f'{BASE} net: "nothing.prototxt"', "nothing.prototxt"),
        (f'{BASE} net: "mlp.prototxt" test_iter: 1 test_interval: 1 test_state {{ }} test_state {{ }}', "test_state"),
    ):
        with pytest.raises(TextError, match=message) as error:
            make(wrong)
        assert "solver.prototxt:" in str(error.value)


WRONG = [
    ('net: "mlp.prototxt" base_lr: 0.1 lr_policy: "fixd"', "no lr_policy 'fixd'.*Did you mean 'fixed'"),
    ('net: "mlp.prototxt" base_lr: 0.1', "has no lr_policy"),
    (f'net: "mlp.prototxt" {BASE} type: "Adma"', "no solver type 'Adma'.*Did you mean 'Adam'"),
    (f'net: "mlp.prototxt" {BASE} type: "AdaGrad"', "AdaGrad has no momentum"),
    (f'net: "mlp.prototxt" {BASE} type: "RMSProp"', "RMSProp has no momentum"),
    (f'net: "mlp.prototxt" {BASE} weight_decay: 1 regularization_type: "L3"', "L1 or L2"),
    ('net: "mlp.prototxt" base_lr: 1 lr_policy: "step"', "stepsize of at least 1"),
    ('net: "mlp.prototxt" base_lr: 1 lr_policy: "exp" gamma: -1', "gamma of at least 0"),
    (f'net: "mlp.prototxt" {BASE} iter_size: 0', "iter_size must be at least 1"),
    (f'net: "mlp.prototxt" {BASE} average_loss: 0', "average_loss must be at least 1"),
    (f'net: "mlp.prototxt" {BASE} momentm: 0.9', "no field 'momentm'.*momentum"),
    ('net: "mlp.prototxt" base_lr: 1 lr_policy: "fixed" momentum: 3', "momentum"),
    ('net: "mlp.prototxt" base_lr: 1 lr_policy: "poly" power: 1', "max_iter"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_mistakes_have_a_place(make, text, message):
    with pytest.raises(TextError, match=message) as error:
        make(text)
    assert "solver.prototxt:1:" in str(error.value)


def test_policies_beside_their_formulas():
    cases = {
        'lr_policy: "fixed"': lambda i: 0.5,
        'lr_policy: "step" stepsize: 3 gamma: 0.1': lambda i: 0.5 * 0.1 ** (i // 3),
        'lr_policy: "exp" gamma: 0.9': lambda i: 0.5 * 0.9**i,
        'lr_policy: "inv" gamma: 0.1 power: 0.75': lambda i: 0.5 * (1 + 0.1 * i) ** -0.75,
        'lr_policy: "multistep" gamma: 0.5 stepvalue: 2 stepvalue: 5': lambda i: 0.5 * 0.5 ** ((i >= 2) + (i >= 5)),
        'lr_policy: "poly" power: 2 max_iter: 10': lambda i: 0.5 * (1 - i / 10) ** 2,
        'lr_policy: "sigmoid" gamma: 0.7 stepsize: 4': lambda i: 0.5 / (1 + math.exp(-0.7 * (i - 4))),
    }
    for text, formula in cases.items():
        message = read_message(f"base_lr: 0.5 {text}", "SolverParameter")
        rate, schedule = LearningRate(message), translate_schedule(message)
        for i in range(10):
            assert rate.peek(i) == pytest.approx(formula(i), rel=1e-6), text
            assert rate.next(i) == pytest.approx(formula(i), rel=1e-6), text
            assert schedule.value(i) == pytest.approx(formula(i), rel=1e-6), text


def test_multistep_falls_once_an_iteration():
    text = 'base_lr: 1 lr_policy: "multistep" gamma: 0.5 stepvalue: 0 stepvalue: 0 stepvalue: 0'
    rate = LearningRate(read_message(text, "SolverParameter"))
    assert [rate.next(i) for i in range(4)] == [0.5, 0.25, 0.125, 0.125]


def test_old_solver_types(make):
    solver = make('net: "mlp.prototxt" base_lr: 0.1 lr_policy: "fixed" solver_type: ADAGRAD')
    assert isinstance(solver, caffe.AdaGradSolver)
    assert caffe.AdamSolver("solver.prototxt").type == "Adam"


def test_the_solver_face_of_pycaffe(make):
    solver = make(f'net: "mlp.prototxt" {BASE} weight_decay: 0.01 max_iter: 10')
    assert (solver.iter, solver.lr, solver.param.max_iter, solver.param.display) == (0, pytest.approx(0.1), 10, 0)
    events = []
    solver.add_callback(lambda: events.append("start"), lambda: events.append(solver.net.params["ip2"][1].diff.copy()))
    solver.step(2)
    assert solver.iter == 2
    assert events[0] == events[2] == "start"
    assert np.abs(events[1]).max() > 0
    solver.param.base_lr = 0.0
    assert solver.lr == 0.0
    with pytest.raises(AttributeError, match="no field 'base_rl'"):
        solver.param.base_rl = 1


def test_apply_update_is_the_end_of_a_step(make):
    text = f'net: "mlp.prototxt" {BASE} weight_decay: 0.01 clip_gradients: 0.1 random_seed: 1'
    stepped, by_hand = make(text), make(text)
    for layer, blobs in by_hand.net.params.items():
        for i, blob in enumerate(blobs):
            blob.data[...] = np.random.default_rng(i).normal(size=blob.shape)
            stepped.net.params[layer][i].data[...] = blob.data
    for _ in range(3):
        stepped.step(1)
        for blobs in by_hand.net.params.values():
            for blob in blobs:
                blob.diff[...] = 0
        last = len(by_hand.net.caffe_net.layers) - 1
        by_hand.net.forward_range(0, last)
        by_hand.net.backward_range(0, last)
        by_hand.apply_update()
    assert by_hand.iter == 3
    for layer, blobs in by_hand.net.params.items():
        for i, blob in enumerate(blobs):
            np.testing.assert_array_equal(stepped.net.params[layer][i].data, blob.data)


def test_debug_info(make):
    solver = make(f'net: "mlp.prototxt" {BASE} display: 2 debug_info: true max_iter: 2 snapshot_after_train: false')
    solver.solve()
    text = "\n".join(solver.lines)
    assert "[Forward] Layer ip1, top blob ip1 data: " in text
    assert "[Backward] Layer ip2, param blob 0 diff: " in text


def parameters(solver):
    """All parameters of a solver, and what its snapshot says of the history."""
    arrays = [np.array(blob.data) for blobs in solver.net.params.values() for blob in blobs]
    slots = [np.array(a) for n, a in solver.net.variables.items() if n.startswith("optimizer:")]
    return [*arrays, *slots]


def train(solver, how):
    if how == "solve":
        return solver.solve()
    if how == "callbacks":
        solver.add_callback(lambda: None, lambda: None)
    for _ in range(3):
        solver.step(1 if how == "step(1)" else 3)
    return None


#: an inner product before BatchNorm, whose statistics the forward pass changes
NORM = """
  layer { name: "in" type: "HDF5Data" top: "data" top: "label"
          hdf5_data_param { source: "solver_data_list.txt" batch_size: 8 } }
  layer { name: "bn" type: "BatchNorm" bottom: "data" top: "bn" }
  layer { name: "ip" type: "InnerProduct" bottom: "bn" top: "ip"
          inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" loss_weight: 1000 }
"""
#: the root of zeros: a finite loss with infinite gradients
ROOT = NORM.replace(
    'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip"',
    'layer { name: "root" type: "Power" bottom: "ip" top: "root" power_param { power: 0.5 } } '
    'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "root"',
)
FACES = {"solve": "", "step(1)": "", "step": "", "callbacks": "", "debug_info": "display: 1 debug_info: true"}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("fault", ["loss", "gradient", "update"])
def test_an_iteration_that_is_not_finite_changes_nothing(make, face, fault):
    """Whether an iteration is one plan or runs layer by layer; a loss, a gradient or an update with a finite loss."""
    rate = 'base_lr: 3.3e38 lr_policy: "fixed" momentum: 0.9' if fault == "update" else BASE
    net = ROOT if fault == "gradient" else NORM
    solver = make(f"net_param {{ {net} }} {rate} max_iter: 5 {FACES[face]} snapshot_after_train: false")
    solver._iteration.create_state()
    if fault == "loss":
        solver.net.params["ip"][1].data[0] = np.nan
    if fault == "gradient":
        for blob in solver.net.params["ip"]:
            blob.data[...] = 0
    before = parameters(solver)
    with pytest.raises(TrainingError, match="not finite in iteration 0; no parameter has been changed") as caught:
        train(solver, face)
    if fault != "loss":
        assert "the loss is finite, but " in str(caught.value)
    for one, other in zip(parameters(solver), before, strict=True):
        np.testing.assert_array_equal(one, other)
    assert solver.iter == 0


def test_a_snapshot_names_what_is_not_finite(make):
    solver = make(f'net: "mlp.prototxt" {BASE} max_iter: 5 snapshot_prefix: "s"')
    solver.net.params["ip1"][0].data[0, 0] = np.inf
    with pytest.warns(RuntimeWarning, match="gets values that are not finite: the weight 'ip1/kernel'"):
        solver.snapshot()


def test_stop_and_snapshot_requests(make, folder):
    solver = make(f'net: "mlp.prototxt" {BASE} max_iter: 50 snapshot_prefix: "s" test_iter: 5 test_interval: 10')
    requests = ["snapshot", "none"]
    solver.action = lambda: requests.pop(0) if requests else ("stop" if solver.iter >= 3 else "none")
    solver.solve()
    assert solver.iter == 3
    assert solver.lines[-1] == "Optimization stopped early."
    assert [names[0] for names in solver.snapshots] == ["s_iter_0.caffemodel", "s_iter_3.caffemodel"]


def test_a_net_without_a_loss_or_parameters_blob(make, folder):
    (folder / "bare.prototxt").write_text(
        INLINE.replace('type: "SoftmaxWithLoss"', 'type: "Accuracy"').replace("loss_weight: 2", "")
    )
    solver = make(f'net: "bare.prototxt" {BASE} max_iter: 1')
    with pytest.raises(PrototorchError, match="has no loss"):
        solver.solve()


def test_shapes_that_do_not_fit_a_test_net(make):
    other = INLINE.replace("num_output: 3", "num_output: 4")
    with pytest.raises(WeightsError, match="shapes"):
        make(f"{BASE} train_net_param {{ {INLINE} }} test_net_param {{ {other} }} test_iter: 1 test_interval: 1")


def test_hostile_numbers_are_mistakes(make):
    solver = make('net: "mlp.prototxt" base_lr: 1e30 lr_policy: "exp" gamma: 1e30 max_iter: 40')
    solver.iter = 20
    with pytest.raises(TextError, match="learning rate of iteration 20 is inf"):
        solver.solve()
    for text in ('lr_policy: "poly" power: -1 max_iter: 2000', 'lr_policy: "step" stepsize: 1 gamma: 1e38'):
        rate = LearningRate(read_message(f"base_lr: 1 {text}", "SolverParameter"))
        with pytest.raises(TextError, match="learning rate of iteration 2000"):
            rate.next(2000)
    with pytest.raises(TextError, match="at most 100"):
        make(f'net: "mlp.prototxt" {BASE} test_interval: 1 {"test_iter: 1 " * 5000}')


PYTHON_LOSS = """
import numpy as np
from prototorch import caffe


class HalfSquares(caffe.Layer):
    def setup(self, bottom, top):
        pass

    def reshape(self, bottom, top):
        top[0].reshape(1)
        self.rest = np.zeros_like(bottom[0].data)

    def forward(self, bottom, top):
        self.rest[...] = bottom[0].data - bottom[1].data
        top[0].data[...] = np.sum(self.rest**2) / bottom[0].num / 2.0

    def backward(self, top, propagate_down, bottom):
        for i, sign in enumerate((1, -1)):
            if propagate_down[i]:
                bottom[i].diff[...] = sign * top[0].diff[0] * self.rest / bottom[i].num
"""


def test_a_loss_in_python_trains_as_the_native_one(make, folder, monkeypatch):
    (folder / "half_squares.py").write_text(PYTHON_LOSS)
    monkeypatch.syspath_prepend(str(folder))
    head = INLINE[: INLINE.index('  layer { name: "accuracy"')]
    target = """
      layer { name: "t" type: "InnerProduct" bottom: "data" top: "t" propagate_down: false
              param { lr_mult: 0 } param { lr_mult: 0 }
              inner_product_param { num_output: 3 weight_filler { type: "constant" value: 0.5 } } }
      layer { name: "quiet" type: "Silence" bottom: "label" }
    """
    native = 'layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "t" top: "loss" }'
    own = (
        'layer { name: "loss" type: "Python" bottom: "ip" bottom: "t" top: "loss" loss_weight: 1 '
        'python_param { module: "half_squares" layer: "HalfSquares" } }'
    )
    results = []
    for loss in (native, own):
        solver = make(
            f"{BASE} iter_size: 2 random_seed: 4 max_iter: 4 snapshot_after_train: false "
            f"train_net_param {{ {head} {target} {loss} }}",
            allow_python=True,
        )
        solver.solve()
        results.append((solver.loss, np.array(solver.net.params["ip"][0].data)))
    assert solver._iteration.is_one_plan is False
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-5)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-5, atol=1e-6)
    with pytest.raises(PrototorchError, match="python"):
        make(f"{BASE} train_net_param {{ {head} {target} {own} }}", allow_python=False)


RECURRENT = """
  layer { name: "d" type: "DummyData" top: "x" top: "cont" top: "y" dummy_data_param {
    shape { dim: 5 dim: 3 dim: 4 } shape { dim: 5 dim: 3 } shape { dim: 5 dim: 3 dim: 2 }
    data_filler { type: "constant" value: 0.3 } data_filler { type: "constant" value: 1 }
    data_filler { type: "constant" value: 0.5 } } }
  layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "h" recurrent_param {
    num_output: 2 weight_filler { type: "uniform" min: -0.3 max: 0.3 }
    bias_filler { type: "constant" value: 0.1 } } }
  layer { name: "loss" type: "EuclideanLoss" bottom: "h" bottom: "y" top: "loss" }
"""


@pytest.mark.parametrize("iter_size", [1, 2])
def test_the_state_of_recurrent_layers_is_carried_in_both_ways_of_training(make, iter_size):
    text = f"{BASE} max_iter: 3 snapshot_after_train: false random_seed: 2 iter_size: {iter_size}"
    whole, parts = (make(f"{text} net_param {{ {RECURRENT} }}") for _ in range(2))
    whole.solve()
    for _ in range(3):
        parts.step(1)
    for blob, other in zip(whole.net.params["lstm"], parts.net.params["lstm"], strict=True):
        np.testing.assert_allclose(blob.data, other.data, rtol=1e-6)
    assert whole.loss == pytest.approx(parts.loss, rel=1e-6)
