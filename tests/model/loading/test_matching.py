"""Matching by rules, by name, by order and shape: what is found, what is told, and what is never done silently."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from safetensors.numpy import save_file

import prototorch as pt
from prototorch.errors import ModelFileError, UsageError, WeightsError
from prototorch.model.load import model_from_text
from prototorch.model.loading.read.source import ReadWeights

TEXT = """
name: "net"
input {{ name: "x" shape: [3, 6, 7] }}
Conv2D {{ name: "{0}"  filters: 4  kernel_size: 3 }}
Conv2D {{ name: "{1}"  filters: 4  kernel_size: 3  padding: 1 }}
BatchNormalization {{ name: "{2}" }}
GlobalAveragePooling2D {{ }}
Dense {{ name: "{3}"  units: {4} }}
"""
NAMES = ("conv1", "conv2", "norm", "fc")


def _model(names: tuple[str, ...] = NAMES, classes: int = 5) -> pt.Model:
    return model_from_text(TEXT.format(*names, classes))


def _state(prefix: str = "", classes: int = 5, seed: int = 0) -> dict[str, np.ndarray]:
    """A state_dict of the net as PyTorch has it."""
    rng = np.random.default_rng(seed)
    shapes = {
        "conv1.weight": (4, 3, 3, 3), "conv1.bias": (4,), "conv2.weight": (4, 4, 3, 3), "conv2.bias": (4,),
        "norm.weight": (4,), "norm.bias": (4,), "norm.running_mean": (4,), "norm.running_var": (4,),
        "fc.weight": (classes, 4), "fc.bias": (classes,),
    }  # fmt: skip
    return {prefix + name: rng.uniform(0.5, 1, shape).astype(np.float32) for name, shape in shapes.items()}


def _file(tmp_path: Path, state: dict[str, np.ndarray], **metadata: str) -> Path:
    path = tmp_path / "weights.safetensors"
    save_file(state, path, metadata or None)
    return path


def _check_loaded(model: pt.Model, state: dict[str, np.ndarray], prefix: str = "") -> None:
    conv1, conv2, _, fc = (node.name for node in model.net.nodes if node.layer.__class__.__name__[0] in "CBD")
    np.testing.assert_array_equal(model.weights[f"{conv1}/kernel"], state[f"{prefix}conv1.weight"])
    np.testing.assert_array_equal(model.weights[f"{conv2}/kernel"], state[f"{prefix}conv2.weight"])
    np.testing.assert_array_equal(model.weights[f"{fc}/kernel"], state[f"{prefix}fc.weight"].T)


@pytest.mark.parametrize("prefix", ["", "module.", "model.", "model.backbone.", "a.b.c."])
def test_what_wraps_all_names_is_left_out_and_reported(tmp_path: Path, prefix: str):
    state, model = _state(prefix), _model()
    report = model.load_weights(_file(tmp_path, state))
    _check_loaded(model, state, prefix)
    assert (f"{prefix[:-1]!r} in front of the file's names is left out" in report.notes) == bool(prefix)
    assert report.system == "torch"
    assert report.transposed == {"fc/kernel": "transposed (1, 0)"}


def test_what_wraps_all_names_of_the_net_is_left_out_and_reported(tmp_path: Path):
    model = _model(tuple(f"net/{name}" for name in NAMES))
    report = model.load_weights(_file(tmp_path, state := _state()))
    _check_loaded(model, state)
    assert "'net' in front of the net's names is left out" in report.notes


def test_two_copies_of_the_weights_are_asked_about(tmp_path: Path):
    state = {**_state("model."), **_state("ema.", seed=1)}
    path = _file(tmp_path, state)
    with pytest.raises(WeightsError, match=r"more than once, under 'ema\.', 'model\.'") as caught:
        _model().load_weights(path)
    assert 'rules { strip: "ema." }' in str(caught.value)
    rules = tmp_path / "rules.proto"
    rules.write_text('rules { strip: "ema."  ignore: "model.**" }', encoding="utf-8")
    model = _model()
    model.load_weights(path, rules=rules)
    _check_loaded(model, state, "ema.")


def test_layers_of_other_names_are_proposed_by_order_and_taken_only_when_asked(tmp_path: Path):
    path, names = _file(tmp_path, state := _state()), ("a", "b", "c", "d")
    model = _model(names)
    before = model.get_weights()
    with pytest.raises(WeightsError, match="by_order=True") as caught:
        model.load_weights(path)
    for pair in ("conv1 -> a", "conv2 -> b", "norm -> c", "fc -> d"):
        assert pair in str(caught.value)
    for name, array in model.weights.items():
        np.testing.assert_array_equal(array, before[name])
    report = model.load_weights(path, by_order=True)
    _check_loaded(model, state)
    assert "paired by order, kind and shape" in report.notes


def test_layers_that_only_their_order_tells_apart_are_named(tmp_path: Path):
    state = {f"{name}.weight": np.ones((4, 4), np.float32) for name in ("p", "q", "r")}
    text = 'name: "n" input { name: "x" shape: [4] } ' + "".join(
        f'Dense {{ name: "{name}"  units: 4  use_bias: false }}' for name in ("a", "b", "c")
    )
    with pytest.raises(WeightsError, match=r"only their order tells these apart.*: a, b, c"):
        model_from_text(text).load_weights(_file(tmp_path, state), system="torch")


def test_a_branch_that_comes_later_in_the_file_still_gets_its_partner(tmp_path: Path):
    state = _state()
    fc = {name: state.pop(name) for name in ("fc.weight", "fc.bias")}
    model = _model(("a", "b", "c", "d"))
    path = _file(tmp_path, state := {**fc, **state})
    model.load_weights(path, by_order=True)
    _check_loaded(model, state)


def test_other_classes_without_except_are_an_error_that_proposes_it(tmp_path: Path):
    path = _file(tmp_path, state := _state(classes=9))
    model = _model(classes=5)
    with pytest.raises(WeightsError, match=r'except_=\["fc/\*"\] keeps the layer') as caught:
        model.load_weights(path)
    assert "fc/kernel: [9, 4] in the file (fc.weight; the model needs [5, 4] there), [4, 5] in the model" in str(
        caught.value
    )
    before = model.get_weights()
    report = model.load_weights(path, except_="fc/*")
    assert report.excluded == ("fc/kernel", "fc/bias")
    assert report.mismatched == ()
    np.testing.assert_array_equal(model.weights["fc/kernel"], before["fc/kernel"])
    np.testing.assert_array_equal(model.weights["conv1/kernel"], state["conv1.weight"])


def test_a_pattern_of_except_that_matches_nothing_is_an_error(tmp_path: Path):
    with pytest.raises(UsageError, match="'logits' matches no weight"):
        _model().load_weights(_file(tmp_path, _state()), except_="logits")


def test_missing_and_unexpected_weights_are_an_error_unless_by_name(tmp_path: Path):
    state = _state()
    del state["norm.bias"]
    state |= {"extra.weight": np.ones((3, 3), np.float32), "extra.bias": np.ones(3, np.float32)}
    path, model = _file(tmp_path, state), _model()
    with pytest.raises(WeightsError, match="by_name=True loads those that do") as caught:
        model.load_weights(path)
    assert "1 missing in the file: norm/beta" in str(caught.value)
    report = model.load_weights(path, by_name=True)
    assert report.missing == ("norm/beta",)
    assert report.unexpected == ("extra.bias", "extra.weight")
    assert "not used: extra of the file, 2 arrays with 12 elements" in report.notes


def test_num_batches_tracked_is_neither_missing_nor_unexpected(tmp_path: Path):
    state = _state() | {"norm.num_batches_tracked": np.array(7)}
    report = _model().load_weights(_file(tmp_path, state))
    assert not report.unexpected
    state |= {"other.num_batches_tracked": np.array(7)}
    assert not _model().load_weights(_file(tmp_path, state)).unexpected


def test_a_shift_that_our_layer_does_not_have_is_an_error_unless_it_is_zero(tmp_path: Path):
    text = 'name: "n" input { name: "x" shape: [4] } BatchNormalization { name: "norm"  center: false }'
    state = {name: array for name, array in _state().items() if name.startswith("norm.")}
    with pytest.raises(WeightsError, match=r"norm.bias: it is not 0 everywhere, and the layer has no such weight"):
        model_from_text(text).load_weights(_file(tmp_path, state))
    state["norm.bias"][:] = 0
    report = model_from_text(text).load_weights(_file(tmp_path, state))
    assert not report.unexpected


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.bool_])
def test_quantized_arrays_are_refused_and_nothing_is_changed(tmp_path: Path, dtype: type):
    state = _state()
    state["fc.bias"] = np.ones(5, dtype)
    model = _model()
    before = model.get_weights()
    with pytest.raises(ModelFileError, match=r"fc.bias is .*quantized weights"):
        model.load_weights(_file(tmp_path, state))
    for name, array in model.weights.items():
        np.testing.assert_array_equal(array, before[name])


def test_half_precision_is_widened(tmp_path: Path):
    state = {name: array.astype(np.float16) for name, array in _state().items()}
    model = _model()
    model.load_weights(_file(tmp_path, state))
    assert model.weights["fc/kernel"].dtype == np.float32
    np.testing.assert_array_equal(model.weights["fc/kernel"], state["fc.weight"].T.astype(np.float32))


def test_a_file_of_our_own_names_is_not_transposed(tmp_path: Path):
    model = _model()
    state = {name: np.asarray(array) + 1 for name, array in model.get_weights().items()}
    report = model.load_weights(_file(tmp_path, state))
    assert report.system == "prototorch"
    for name, array in model.weights.items():
        np.testing.assert_array_equal(array, state[name])


def test_square_kernels_under_names_of_two_systems_are_asked_about(tmp_path: Path):
    text = 'name: "n" input { name: "x" shape: [3, 5, 5] } Conv2D { name: "c"  filters: 3  kernel_size: 3 }'
    kernel = np.random.default_rng(0).normal(size=(3, 3, 3, 3)).astype(np.float32)
    path = _file(tmp_path, {"c/kernel": kernel, "c/bias": np.zeros(3, np.float32)})
    with pytest.raises(WeightsError, match="give system='keras' or 'prototorch'"):
        model_from_text(text).load_weights(path)
    model = model_from_text(text)
    model.load_weights(path, system="prototorch")
    np.testing.assert_array_equal(model.weights["c/kernel"], kernel)
    model.load_weights(path, system="keras")
    np.testing.assert_array_equal(model.weights["c/kernel"], kernel.transpose(3, 2, 0, 1))


def test_an_unknown_system_is_an_error_with_the_known_ones(tmp_path: Path):
    with pytest.raises(UsageError, match=r"expected one of torch, keras, prototorch.*Did you mean 'torch'"):
        _model().load_weights(_file(tmp_path, _state()), system="pytorch")


def test_two_names_of_one_layer_need_not_be_both_in_the_file(tmp_path: Path):
    text = (
        'name: "n" input { name: "x" shape: [4] } '
        'Dense { name: "a"  units: 4  weights: "w" } Dense { name: "b"  units: 4  weights: "w" }'
    )
    state = {"b.weight": np.arange(16, dtype=np.float32).reshape(4, 4), "b.bias": np.ones(4, np.float32)}
    model = model_from_text(text)
    model.load_weights(_file(tmp_path, state, format="pt"))
    np.testing.assert_array_equal(model.weights["w/kernel"], state["b.weight"].T)


def test_names_of_old_densenets_are_known(tmp_path: Path):
    text = (
        'name: "n" input { name: "x" shape: [3, 5, 5] } '
        'BatchNormalization { name: "features/denseblock1/denselayer1/norm1" }'
        'Conv2D { name: "features/denseblock1/denselayer1/conv2"  filters: 3  kernel_size: 3 }'
    )
    start, rng = "module.features.denseblock1.denselayer1.", np.random.default_rng(0)
    parts = ("weight", "bias", "running_mean", "running_var")
    state = {f"{start}norm.1.{name}": rng.uniform(1, 2, 3).astype(np.float32) for name in parts}
    state[f"{start}conv.2.weight"] = rng.normal(size=(3, 3, 3, 3)).astype(np.float32)
    state[f"{start}conv.2.bias"] = np.ones(3, np.float32)
    model = model_from_text(text)
    report = model.load_weights(_file(tmp_path, state))
    assert not report.missing
    assert not report.unexpected


def test_the_match_itself_reads_nothing_and_tells_everything(tmp_path: Path):
    model = _model()
    model.build()
    match = ReadWeights(pt.read_weights(_file(tmp_path, _state()))).names(model.net, model._weight_specs).lay_out()
    assert match.is_complete
    assert set(match.weight_names) == set(model.weights)
    for name, array in match.arrays():
        assert array.shape == model.weights[name].shape


def keras_file(tmp_path, names):
    """A Keras 2 file of dense layers of one shape, the k-th filled with k."""
    path = tmp_path / "w.h5"
    with h5py.File(path, "w") as file:
        file.attrs.update(layer_names=names, backend="tensorflow", keras_version="2.15.0")
        for number, name in enumerate(names):
            group = file.create_group(name)
            group.attrs["weight_names"] = [f"{name}/kernel:0"]
            group[f"{name}/kernel:0"] = np.full((3, 3), number, np.float32)
    return path


def dense_model(names):
    declared = ["" if n is None else f'name: "{n}"' for n in names]
    lines = [f"Dense {{ {name}  units: 3  use_bias: false }}\n" for name in declared]
    return model_from_text('name: "m"\ninput { name: "x"  shape: [3] }\n' + "".join(lines))


@pytest.mark.parametrize("count", [1, 2])
def test_automatic_names_are_refused_where_the_file_has_another_number_of_them(tmp_path, count):
    """Keras' dense_1 is its second layer, ours the first: by name they would be loaded one layer off."""
    path = keras_file(tmp_path, ["dense", "dense_1", "dense_2"])
    model = dense_model([None] * count)
    before = model.get_weights()
    with pytest.raises(WeightsError, match="only count the layers of a class"):
        model.load_weights(path)
    with pytest.raises(WeightsError, match="only count the layers of a class"):
        model.load_weights(path, by_name=True)
    assert all(np.array_equal(before[name], array) for name, array in model.get_weights().items())


@pytest.mark.parametrize("names", [["dense", "dense_1", "dense_2"], ["dense_9", "dense_10", "dense_11"]])
def test_the_kth_automatic_name_of_a_class_is_the_kth_of_this_class(tmp_path, names):
    """By the numbers in the names, whatever the order of the layers in the file."""
    path = keras_file(tmp_path, names[::-1])
    model = dense_model([None] * 3)
    assert "the k-th automatic name of a class" in str(model.load_weights(path))
    assert [float(w[0, 0]) for w in model.get_weights().values()] == [2, 1, 0]


def test_counting_names_by_order(tmp_path):
    model = dense_model([None] * 3)
    model.load_weights(keras_file(tmp_path, ["dense", "dense_1", "dense_2"]), by_order=True)
    assert [float(w[0, 0]) for w in model.get_weights().values()] == [0, 1, 2]


def test_counting_names_that_are_the_same_on_both_sides(tmp_path):
    for names in (["dense_1", "dense_2"], ["dense", "dense_1"]):
        model = dense_model(names)
        model.load_weights(keras_file(tmp_path, names))
        assert [float(w[0, 0]) for w in model.get_weights().values()] == [0, 1]
    model = dense_model(["dense", "dense_1", "head"])
    model.load_weights(keras_file(tmp_path, ["dense", "dense_1"]), by_name=True)
    assert [float(w[0, 0]) for w in model.get_weights().values()][:2] == [0, 1]
