"""Files as Keras 0, 1 and early 2 wrote them, made by hand: no Keras of today writes them."""

import json

import h5py
import numpy as np
import pytest

from prototorch.model.loading.read.read_file import read_weights


def draw(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def legacy_file(path, layers, config=None, attributes=(), split=False):
    """layers: name -> {weight name: array}; names are bytes, as in old files."""
    with h5py.File(path, "w") as file:
        root = file
        if config is not None:
            file.attrs["model_config"] = config.encode()
            root = file.create_group("model_weights")
        root.attrs.update(dict(attributes))
        names = [name.encode() for name in layers]
        if split:
            for k in range(0, len(names), 2):
                root.attrs[f"layer_names{k // 2}"] = names[k : k + 2]
        else:
            root.attrs["layer_names"] = names
        for name, weights in layers.items():
            group = root.create_group(name)
            group.attrs["weight_names"] = [weight.encode() for weight in weights]
            for weight, array in weights.items():
                group[weight] = array
    return str(path)


def test_gates_of_keras_1(tmp_path):
    n, units = 3, 2
    lstm = {
        f"lstm_1_{kind}_{gate}": draw(*shape, seed=k)
        for k, gate in enumerate("icfo")
        for kind, shape in (("W", (n, units)), ("U", (units, units)), ("b", (units,)))
    }
    gru = {
        f"gru_1_{kind}_{gate}": draw(*shape, seed=k)
        for k, gate in enumerate("zrh")
        for kind, shape in (("W", (n, units)), ("U", (units, units)), ("b", (units,)))
    }
    file = read_weights(legacy_file(tmp_path / "a.h5", {"lstm_1": lstm, "gru_1": gru}))
    assert [layer.kind for layer in file.layers] == ["LSTM", "GRU"]
    for name, weights, order in (("lstm_1", lstm, "ifco"), ("gru_1", gru, "zrh")):
        for weight, kind in (("kernel", "W"), ("recurrent_kernel", "U"), ("bias", "b")):
            expected = np.concatenate([weights[f"{name}_{kind}_{gate}"] for gate in order], axis=-1)
            np.testing.assert_array_equal(file[f"{name}/{weight}"], expected)
            assert file.arrays[f"{name}/{weight}"].shape == expected.shape


@pytest.mark.parametrize("backend", ["theano", "tensorflow"])
@pytest.mark.parametrize("dims", ["th", "tf"])
def test_kernels_of_keras_1(tmp_path, dims, backend):
    """A true convolution of Theano is a correlation with the flipped kernel."""
    kernel = draw(5, 3, 2, 2) if dims == "th" else draw(2, 2, 3, 5)
    bn = {f"bn_{name}": draw(5) for name in ("gamma", "beta", "running_mean", "running_std")}
    layers = {"c": {"c_W": kernel, "c_b": draw(5)}, "bn": bn}
    config = json.dumps(
        {
            "class_name": "Sequential",
            "config": [
                {"class_name": "Convolution2D", "config": {"name": "c", "dim_ordering": dims}},
                {"class_name": "BatchNormalization", "config": {"name": "bn"}},
            ],
        }
    )
    for with_config in (config, None):
        path = legacy_file(tmp_path / "a.h5", layers, with_config, {"backend": backend.encode()} if backend else {})
        file = read_weights(path)
        assert file.metadata["data_format"] == {"th": "channels_first", "tf": "channels_last"}[dims]
        array = file["c/kernel"]
        assert array.shape == (2, 2, 3, 5)
        for index in np.ndindex(array.shape):
            row, column, i, o = index
            if dims == "tf":
                expected = kernel[index]
            elif backend == "theano":
                expected = kernel[o, i, 1 - row, 1 - column]
            else:
                expected = kernel[o, i, row, column]
            assert array[index] == expected
        np.testing.assert_array_equal(file["bn/moving_variance"], bn["bn_running_std"])
        assert file.layers[1].weights == ("bn/gamma", "bn/beta", "bn/moving_mean", "bn/moving_variance")


def test_keras_0(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["nb_layers"] = 3
        for k, arrays in enumerate(([draw(4, 3, 2, 2), draw(4)], [], [draw(8, 5), draw(5)])):
            group = file.create_group(f"layer_{k}")
            group.attrs["nb_params"] = len(arrays)
            for n, array in enumerate(arrays):
                group[f"param_{n}"] = array
    weights = read_weights(tmp_path / "a.h5")
    assert list(weights) == ["layer_0/0", "layer_0/1", "layer_2/0", "layer_2/1"]
    np.testing.assert_array_equal(weights["layer_0/0"], draw(4, 3, 2, 2)[:, :, ::-1, ::-1].transpose(2, 3, 1, 0))


def test_recurrent_layers_of_cudnn(tmp_path):
    """Keras 2's CuDNNLSTM and CuDNNGRU beside the plain layers' own arrays, gate by gate."""
    n, units = 3, 2
    for gates, kind in ((4, "LSTM"), (3, "GRU")):
        kernels = [draw(n, units, seed=g) for g in range(gates)]
        states = [draw(units, units, seed=g) for g in range(gates)]
        bias = draw(2 * gates * units)
        cudnn = {
            "cudnn/kernel:0": np.hstack([kernel.T.reshape(kernel.shape) for kernel in kernels]),
            "cudnn/recurrent_kernel:0": np.hstack([state.T for state in states]),
            "cudnn/bias:0": bias,
        }
        file = read_weights(legacy_file(tmp_path / "a.h5", {"cudnn": cudnn}, None, {"keras_version": b"2.2.4"}))
        assert file.layers[0].kind == kind
        np.testing.assert_array_equal(file["cudnn/kernel"], np.hstack(kernels))
        np.testing.assert_array_equal(file["cudnn/recurrent_kernel"], np.hstack(states))
        halves = bias.reshape(2, -1)
        np.testing.assert_array_equal(file["cudnn/bias"], halves.sum(0) if kind == "LSTM" else halves)


def test_names_follow_the_lists_and_lists_may_be_split(tmp_path):
    """Real files: the layer batch_normalization_1 holds batch_normalization_1_1/gamma:0; long lists are in pieces."""
    layers = {
        f"dense_{k}": {f"dense_{k}_1/kernel:0": draw(2, 3, seed=k), f"dense_{k}_1/bias:0": draw(3)} for k in range(5)
    }
    path = legacy_file(tmp_path / "a.h5", layers, None, {"keras_version": b"2.0.5"}, split=True)
    file = read_weights(path)
    assert [layer.name for layer in file.layers] == list(layers)
    for k in range(5):
        np.testing.assert_array_equal(file[f"dense_{k}/kernel"], draw(2, 3, seed=k))


def test_compressed_and_half_precision_arrays(tmp_path):
    with h5py.File(tmp_path / "a.weights.h5", "w") as file:
        group = file.create_group("layers/dense/vars")
        group.attrs["name"] = "d"
        group.create_dataset("0", data=draw(40, 30), chunks=(7, 30), compression="gzip", shuffle=True)
        codes = np.array([0x3F80, 0xC000, 0x7F80], np.uint16).view("V2")
        group.create_dataset("1", data=codes).attrs["dtype"] = "bfloat16"
        other = file.create_group("layers/dense_1/vars")
        other.attrs["name"] = "e"
        other["0"] = draw(3, 2).astype(">f2")
    weights = read_weights(tmp_path / "a.weights.h5")
    np.testing.assert_array_equal(weights["d/kernel"], draw(40, 30))
    np.testing.assert_array_equal(weights["d/bias"], np.array([1, -2, np.inf], np.float32))
    assert weights.arrays["d/bias"].dtype == "bfloat16"
    assert not weights["d/kernel"].flags.writeable
    np.testing.assert_array_equal(weights["e/kernel"], draw(3, 2).astype(np.float16))
