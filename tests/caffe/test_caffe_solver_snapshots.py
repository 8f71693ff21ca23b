"""Snapshots of Caffe's solvers: written, resumed in both formats, from Caffe's own files."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from prototorch.caffe.data.database_writer import write_database
from prototorch.caffe.data.datum import encode_datum
from prototorch.caffe.interop.solver_state import read_solver_state
from prototorch.caffe.solver import get_solver
from prototorch.caffe.solver_position import position_path, read_position
from prototorch.caffe.solver_snapshot import read_history
from prototorch.errors import ModelFileError, ModelWarning, TextError, UsageError, WeightsError
from tests.caffe.golden import GOLDEN

SOLVERS = GOLDEN / "solvers"
MLP = SOLVERS / "mlp.prototxt"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with the data of the golden runs."""
    for name in ("solver_data.h5", "solver_data_list.txt", "mlp.prototxt", "cnn.prototxt", "shared.prototxt"):
        shutil.copy(SOLVERS / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def solver_of(folder, text, name="solver.prototxt", net="mlp", **options):
    path = folder / name
    path.write_text(f'net: "{net}.prototxt" random_seed: 3 {text}')
    solver = get_solver(path, **options)
    if net == "mlp":
        with np.load(SOLVERS / "adam.npz") as file:
            for layer in ("ip1", "ip2"):
                for i in range(2):
                    solver.net.params[layer][i].data[...] = file[f"w/0/{layer}/{i}"]
    return solver


def weights_of(solver):
    return {f"{n}/{i}": np.array(b.data) for n, bs in solver.net.params.items() for i, b in enumerate(bs)}


def assert_same(a, b, **tolerance):
    assert a.keys() == b.keys()
    for name, value in a.items():
        np.testing.assert_allclose(value, b[name], err_msg=name, **(tolerance or {"rtol": 1e-6, "atol": 1e-7}))


TYPES = {
    "SGD": 'type: "SGD" momentum: 0.9 lr_policy: "step" stepsize: 2 gamma: 0.5',
    "Nesterov": 'type: "Nesterov" momentum: 0.9 lr_policy: "inv" gamma: 0.1 power: 0.75',
    "AdaGrad": 'type: "AdaGrad" lr_policy: "poly" power: 2',
    "RMSProp": 'type: "RMSProp" rms_decay: 0.9 lr_policy: "exp" gamma: 0.9',
    "AdaDelta": 'type: "AdaDelta" momentum: 0.95 delta: 1e-6 lr_policy: "fixed"',
    "Adam": 'type: "Adam" momentum: 0.9 momentum2: 0.99 lr_policy: "multistep" gamma: 0.1 stepvalue: 1 stepvalue: 4',
}


@pytest.mark.parametrize(
    ("kind", "form", "net"),
    [
        *((kind, "HDF5", "mlp") for kind in TYPES),
        *((kind, "BINARYPROTO", "cnn") for kind in TYPES),
        ("SGD", "BINARYPROTO", "shared"),
    ],
)
def test_three_and_three_iterations_are_six(folder, kind, form, net):
    text = (
        f'{TYPES[kind]} base_lr: 0.05 weight_decay: 0.01 max_iter: 6 snapshot_format: {form} snapshot_prefix: "snap/a" '
    )
    whole = solver_of(folder, text, net=net)
    first = weights_of(whole)
    whole.solve()
    part = solver_of(folder, f"{text} snapshot: 3", net=net)
    for name, value in first.items():
        layer, _, index = name.rpartition("/")
        part.net.params[layer][int(index)].data[...] = value
    part.action = lambda: "stop" if part.iter == 3 else "none"
    part.solve()
    assert part.is_stopped
    ending = ".h5" if form == "HDF5" else ""
    state = folder / f"snap/a_iter_3.solverstate{ending}"
    assert part.snapshots == [(f"snap/a_iter_3.caffemodel{ending}", f"snap/a_iter_3.solverstate{ending}")]
    stored = read_solver_state(state)
    assert (stored.iteration, stored.learned_net) == (3, f"snap/a_iter_3.caffemodel{ending}")
    resumed = solver_of(folder, text, net=net)
    resumed.solve(state)
    assert resumed.iter == 6
    assert_same(weights_of(resumed), weights_of(whole))
    for mine, theirs in zip(read_history(resumed.net, kind), read_history(whole.net, kind), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-7)
    for solver in (whole, part, resumed):
        solver.close()


@pytest.mark.parametrize("name", ["adam", "cnn_adam", "sgd_fixed"])
def test_states_of_caffe_are_those_of_its_runs(folder, name):
    for path in SOLVERS.glob(f"{name}*"):
        shutil.copy(path, folder / path.name)
    solver = get_solver(folder / f"{name}.solver.prototxt")
    solver.restore(f"{name}_iter_5.solverstate.h5")
    assert solver.iter == 5
    with np.load(SOLVERS / f"{name}.npz") as file:
        for key, value in weights_of(solver).items():
            np.testing.assert_array_equal(value, file[f"w/5/{key}"])
        for i, array in enumerate(read_history(solver.net, solver.type)):
            np.testing.assert_array_equal(array, file[f"history/{i}"])
    solver.close()


@pytest.fixture(scope="module")
def lenet(tmp_path_factory):
    """Three iterations from Caffe's own state of LeNet, by format."""
    folder = tmp_path_factory.mktemp("lenet")
    for path in (GOLDEN / "lenet").iterdir():
        shutil.copy(path, folder / path.name)
    return folder


def test_lenet_goes_on_from_both_of_caffes_states(lenet, monkeypatch):
    monkeypatch.chdir(lenet)
    results = []
    for form, ending in (("HDF5", ".h5"), ("BINARYPROTO", "")):
        solver = get_solver(f"lenet_solver_{form}.prototxt", prefix="again")
        solver.restore(f"lenet_iter_3.solverstate{ending}")
        solver.param.max_iter = 6
        solver.solve()
        results.append(weights_of(solver))
        solver.close()
    assert_same(results[0], results[1])
    state = read_solver_state("again_iter_6.solverstate")
    assert (state.iteration, len(state.history)) == (6, 8)


def test_a_moved_snapshot_is_found_beside_its_state(folder):
    solver = solver_of(folder, 'base_lr: 0.1 lr_policy: "fixed" momentum: 0.9 max_iter: 2 snapshot_prefix: "deep/x"')
    solver.solve()
    (folder / "deep").rename(folder / "moved")
    other = solver_of(folder, 'base_lr: 0.1 lr_policy: "fixed" momentum: 0.9 max_iter: 4')
    other.restore("moved/x_iter_2.solverstate")
    assert_same(weights_of(other), weights_of(solver))
    (folder / "moved/x_iter_2.caffemodel").unlink()
    with pytest.raises(ModelFileError, match=r"x_iter_2\.caffemodel.*--weights"):
        other.restore("moved/x_iter_2.solverstate")


def test_a_state_of_another_solver_is_refused(folder):
    solver = solver_of(folder, 'base_lr: 0.1 lr_policy: "fixed" momentum: 0.9 max_iter: 1 snapshot_prefix: "sgd"')
    solver.solve()
    adam = solver_of(folder, 'type: "Adam" base_lr: 0.1 lr_policy: "fixed" momentum: 0.9 max_iter: 1')
    before = weights_of(adam)
    with pytest.raises(ModelFileError, match="4 arrays, a Adam solver of this net has 8"):
        adam.restore("sgd_iter_1.solverstate")
    assert_same(weights_of(adam), before)


def test_snapshots_do_not_leave_the_folder(folder):
    text = 'base_lr: 0.1 lr_policy: "fixed" max_iter: 1'
    for prefix in ("/elsewhere/x", "../x"):
        with pytest.warns(ModelWarning, match="leads out of"):
            solver = solver_of(folder, f'{text} snapshot_prefix: "{prefix}"')
        assert solver.snapshot()[0] == "./x_iter_0.caffemodel" or solver.snapshots[0][0] == "x_iter_0.caffemodel"
    (folder / "link").symlink_to("/tmp")
    solver = solver_of(folder, f'{text} snapshot_prefix: "link/x"')
    with pytest.raises(UsageError, match="outside of the run folder"):
        solver.snapshot()
    solver = solver_of(folder, text, prefix=str(folder / "given"))
    assert solver.snapshot()[1] == str(folder / "given_iter_0.solverstate")


def test_without_a_prefix_it_is_the_solvers_name(folder):
    solver = solver_of(folder, 'base_lr: 0.1 lr_policy: "fixed" max_iter: 1', name="my_solver.prototxt")
    assert solver.snapshot() == ("my_solver_iter_0.caffemodel", "my_solver_iter_0.solverstate")
    (folder / "snaps").mkdir()
    solver = solver_of(folder, 'snapshot_prefix: "snaps" base_lr: 0.1 lr_policy: "fixed"', name="my_solver.prototxt")
    assert solver.snapshot()[0] == "snaps/my_solver_iter_0.caffemodel"


def test_weights_of_several_files(folder):
    solver = solver_of(folder, 'base_lr: 0.1 lr_policy: "fixed" max_iter: 1 snapshot_prefix: "w"')
    solver.solve()
    text = 'base_lr: 0.1 lr_policy: "fixed" weights: "w_iter_1.caffemodel, w_iter_1.caffemodel"'
    (folder / "fine.prototxt").write_text(f'net: "mlp.prototxt" {text}')
    assert_same(weights_of(get_solver(folder / "fine.prototxt")), weights_of(solver))
    (folder / "fine.prototxt").write_text('net: "mlp.prototxt" base_lr: 0.1 lr_policy: "fixed"')
    assert_same(weights_of(get_solver("fine.prototxt", weights="w_iter_1.caffemodel")), weights_of(solver))
    with pytest.raises(WeightsError, match=r"nothing\.caffemodel"):
        get_solver("fine.prototxt", weights="nothing.caffemodel")


@pytest.mark.parametrize(
    "prefix", [r"a\000b", r"a\nIteration 9, loss = 0\nb", "a" * 230, "a" * 300 + "/b", "ab/" * 1500]
)
def test_a_prefix_that_no_file_can_have_is_refused_before_training(folder, prefix):
    with pytest.raises(TextError, match=r"solver.prototxt:1:\d+: snapshot_prefix (has the control|is too long)"):
        solver_of(folder, f'base_lr: 0.1 lr_policy: "fixed" max_iter: 1 snapshot_prefix: "{prefix}"')


def test_a_stated_prefix_that_no_file_can_have(folder):
    with pytest.raises(UsageError, match="prefix of snapshots has the control character"):
        solver_of(folder, 'base_lr: 0.1 lr_policy: "fixed"', prefix="a\0b")
    solver = solver_of(folder, 'base_lr: 0.1 lr_policy: "fixed"', prefix="a" * 200)
    assert solver.snapshot()[1] == "a" * 200 + "_iter_0.solverstate"


DATA = {
    "hdf5": 'type: "HDF5Data" hdf5_data_param { source: "solver_data_list.txt" batch_size: 7 shuffle: true }',
    "lmdb": 'type: "Data" transform_param { mirror: true crop_size: 5 } '
    'data_param { source: "db" batch_size: 7 backend: LMDB }',
    "images": 'type: "ImageData" transform_param { mirror: true crop_size: 5 } '
    'image_data_param { source: "list.txt" root_folder: "img/" batch_size: 7 shuffle: true rand_skip: 3 }',
    "dummy": 'type: "DummyData" dummy_data_param { shape { dim: 7 dim: 6 } shape { dim: 7 } '
    'data_filler { type: "gaussian" std: 1 } data_filler { type: "constant" value: 1 } }',
}
RESUMED_NET = """
  layer {{ name: "data" top: "data" top: "label" {data} }}
  layer {{ name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
          inner_product_param {{ num_output: 8 weight_filler {{ type: "xavier" }} }} }}
  layer {{ name: "drop" type: "Dropout" bottom: "ip1" top: "drop" }}
  layer {{ name: "bn" type: "BatchNorm" bottom: "drop" top: "bn" }}
  layer {{ name: "ip2" type: "InnerProduct" bottom: "bn" top: "ip2"
          inner_product_param {{ num_output: 3 weight_filler {{ type: "xavier" }} }} }}
  layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }}
"""


@pytest.fixture
def images(folder):
    """Twenty images of three classes, as files and in an LMDB."""
    rng = np.random.default_rng(0)
    (folder / "img").mkdir()
    lines, records = [], []
    for i in range(20):
        pixels = rng.integers(0, 256, (6, 7, 3), np.uint8)
        Image.fromarray(pixels).save(folder / "img" / f"{i}.png")
        lines.append(f"{i}.png {i % 3}\n")
        records.append((f"{i:08}".encode(), encode_datum(np.ascontiguousarray(pixels.transpose(2, 0, 1)), i % 3)))
    (folder / "list.txt").write_text("".join(lines))
    write_database(folder / "db", records, "lmdb")
    return folder


def resumed_solver(data, seed, fmt="BINARYPROTO"):
    text = (
        f"net_param {{ {RESUMED_NET.format(data=DATA[data])} }} base_lr: 0.01 momentum: 0.9 lr_policy: 'fixed' "
        f"random_seed: {seed} max_iter: 9 snapshot_prefix: 's' snapshot_format: {fmt} iter_size: 2"
    )
    with open("resumed.prototxt", "w") as file:
        file.write(text)
    lines = []
    solver = get_solver("resumed.prototxt", write=lines.append)
    solver.lines = lines
    return solver


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("face", ["solve", "step"])
def test_a_resumed_solver_goes_on_bit_for_bit(images, data, face):
    """Shuffled data, crops, mirroring and dropout: 4 iterations, a snapshot, 5 more are the 9 without a stop."""

    def run(solver, count):
        for _ in range(count):
            solver.step(1) if face == "step" else solver._run(solver.iter + 1, keeps_blobs=False)

    whole = resumed_solver(data, 5)
    run(whole, 4)
    _, state = whole.snapshot()
    run(whole, 5)
    resumed = resumed_solver(data, 77)  # what is drawn follows from the state
    resumed.restore(state)
    assert "the data go on at the same row" in resumed.lines[-1]
    run(resumed, 5)
    for name, value in weights_of(whole).items():
        np.testing.assert_array_equal(weights_of(resumed)[name], value, err_msg=name)
    as_caffe = resumed_solver(data, 5)
    as_caffe.restore(state, caffe_resume=True)
    assert as_caffe.lines[-1].endswith("the data begin at their first row, as in Caffe")
    run(as_caffe, 5)
    assert any((weights_of(as_caffe)[n] != v).any() for n, v in weights_of(whole).items())
    for solver in (whole, resumed, as_caffe):
        solver.close()


@pytest.mark.parametrize("fmt", ["BINARYPROTO", "HDF5"])
def test_a_killed_snapshot_leaves_the_position_of_the_state_that_is_there(images, fmt, monkeypatch):
    solver = resumed_solver("hdf5", 5, fmt)
    solver.step(2)
    _, state = solver.snapshot()
    assert read_position(state, read_solver_state(state)).nets[0].batches == {"0": 4}
    solver.step(1)
    solver.iter = 2  # another snapshot of the same name

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("prototorch.caffe.solver_snapshot.write_solver_state", killed)
    with pytest.raises(KeyboardInterrupt):
        solver.snapshot()
    assert read_position(state, read_solver_state(state)).nets[0].batches == {"0": 4}
    solver.close()


def test_positions_that_are_missing_foreign_or_damaged(images):
    solver = resumed_solver("hdf5", 5)
    solver.step(2)
    _, state = solver.snapshot()
    path = Path(position_path(state))
    content = path.read_text()
    for text in ("{", "[]", '{"format": 2, "states": {}}', content.replace('"seed": 5', '"seed": -1')):
        path.write_text(text)
        with pytest.raises(ModelFileError, match="--caffe-resume goes on without it"):
            solver.restore(state)
    path.write_text('{"format": 1, "states": {}}')
    solver.restore(state)
    assert "the data begin at their first row, as in Caffe: there is no s_iter_2.resume" in solver.lines[-1]
    path.unlink()
    solver.restore(state)
    assert "as in Caffe: there is no" in solver.lines[-1]
    solver.close()
