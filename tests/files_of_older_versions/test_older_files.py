"""Files written by older versions are read, give the numbers of their version, and go on where they ended."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import prototorch as pt
from prototorch.cli.main import group
from tests.files_of_older_versions.write_files import Module, ids, images, sequences

FOLDER = Path(__file__).resolve().parent
VERSIONS = sorted(path.name for path in FOLDER.iterdir() if (path / "results.npz").is_file())
#: float32 through another order of sums: another processor, threads, kernels
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}
DATA = {"word_net": ids, "sequence_net": sequences}


@pytest.fixture(params=VERSIONS)
def version(request, tmp_path, monkeypatch):
    """The results of a version, in a working directory with a copy of its files."""
    shutil.copytree(FOLDER / request.param, tmp_path / "files")
    monkeypatch.chdir(tmp_path / "files")
    with np.load("results.npz") as file:
        return dict(file)


def _assert_near(value, expected):
    np.testing.assert_allclose(value, expected, **TOLERANCE)


def test_there_are_files():
    assert {"da4709b2", "85803d67"} <= set(VERSIONS)


@pytest.mark.parametrize("name", ["image_net", "word_net"])
def test_a_text_means_what_it_meant(version, name):
    model = pt.load_model(f"{name}.proto")
    assert model.to_text() == Path(f"{name}_expanded.proto").read_text("utf-8")
    assert pt.load_model(f"{name}_expanded.proto").to_text() == model.to_text()


def test_a_saved_model_predicts_and_trains_as_before(version):
    x, y = ids()
    model = pt.load_model("word_net.h5")
    _assert_near(model.predict(x, verbose=0), version["word_net"])
    model.train_on_batch(x, y)
    _assert_near(model.predict(x, verbose=0), version["word_net_after_a_step"])


def _with_file(*names):
    """Parameters for the versions that wrote a file of this name."""
    pairs = [(v, n) for n in names for v in VERSIONS if (FOLDER / v / f"{n}.h5").is_file()]
    return pytest.mark.parametrize(("version", "name"), pairs, indirect=["version"])


@_with_file("word_net", "sequence_net")
def test_the_weights_of_a_saved_model_fit_its_upgraded_text(version, name):
    for text in (f"{name}.proto", f"{name}_expanded.proto"):
        assert CliRunner().invoke(group, ["fmt", "--upgrade", text]).exit_code == 0
        upgraded = Path(text).read_text("utf-8")
        assert CliRunner().invoke(group, ["fmt", "--upgrade", text]).exit_code == 0
        assert Path(text).read_text("utf-8") == upgraded
        model = pt.load_model(text)
        model.load_weights(f"{name}.h5")
        _assert_near(model.predict(DATA[name]()[0], verbose=0), version[name])


@_with_file("sequence_net")
def test_a_saved_net_over_sequences_predicts_as_before(version, name):
    model = pt.load_model(f"{name}.h5")
    _assert_near(model.predict(sequences()[0], verbose=0), version[name])
    model.save("again.h5")
    _assert_near(pt.load_model("again.h5").predict(sequences()[0], verbose=0), version[name])
    assert pt.load_model("again.h5").to_text() == model.to_text()


@_with_file("convolution")
def test_a_static_graph_with_a_layer_over_sequences_runs(version, name):
    graph = pt.Graph.load("convolution.h5")
    _assert_near(np.asarray(graph(sequences()[0])), version["convolution"])
    graph.save("again.h5")
    _assert_near(np.asarray(pt.Graph.load("again.h5")(sequences()[0])), version["convolution"])


def test_a_snapshot_resumes_its_fit(version):
    x, y = images()
    model = pt.load_model("snapshot.h5")
    _assert_near(model.predict(x, verbose=0), version["snapshot"])
    callback = pt.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: None)
    history = model.fit(x, y, verbose=0, callbacks=[callback])
    _assert_near(history.history["loss"], version["fit_loss"])
    weights = {name.removeprefix("fit/"): array for name, array in version.items() if name.startswith("fit/")}
    assert list(model.weights) == list(weights)
    for name, array in model.weights.items():
        np.testing.assert_allclose(array, weights[name], err_msg=name, **TOLERANCE)


def test_a_state_dict_is_read(version):
    module = Module()
    module.load_state_dict(pt.load("module.pth"))
    module.eval()
    with pt.no_grad():
        _assert_near(module(pt.from_numpy(images()[0])).numpy(), version["module"])


def test_the_state_dict_is_pytorchs(version):
    torch = pytest.importorskip("torch")
    state = torch.load("module.pth", weights_only=True)
    assert [tuple(array.shape) for array in state.values()][:2] == [(2, 1, 3, 3), (2,)]


def test_a_compiled_function_runs(version):
    function = pt.load_compiled("function.h5")
    _assert_near(np.asarray(function(pt.from_numpy(images()[0]))), version["module"])


def test_a_static_graph_goes_on(version):
    graph = pt.Graph.load("graph.h5")
    data = np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3), np.ones((4, 2), "float32")
    _assert_near([graph(*data) for _ in range(3)], version["graph"])


def test_a_solver_of_caffe_goes_on_from_its_snapshot(version):
    solver = pt.caffe.get_solver("caffe_solver.prototxt")
    solver.net.copy_from("caffe_net_iter_3.caffemodel")
    _assert_blobs(solver.net, version, "caffe/3")
    solver = pt.caffe.get_solver("caffe_solver.prototxt")
    solver.restore("caffe_net_iter_3.solverstate")
    assert solver.iter == 3
    solver.step(3)
    _assert_blobs(solver.net, version, "caffe/6")


def _assert_blobs(net, results, prefix):
    for name, blobs in net.params.items():
        for i, blob in enumerate(blobs):
            np.testing.assert_allclose(blob.data, results[f"{prefix}/{name}/{i}"], err_msg=name, **TOLERANCE)
