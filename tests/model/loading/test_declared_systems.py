"""The layout of an array comes from the system that its file or its user tells, never from the array's name."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import prototorch as pt
from prototorch.errors import ModelFileError, WeightsError
from prototorch.model.load import model_from_text

SQUARE = 'name: "n" input { name: "x" shape: [4] } Dense { name: "proj"  units: 4 }'
WIDE = 'name: "n" input { name: "x" shape: [4] } Dense { name: "attn"  units: 12 } Dense { name: "proj"  units: 12 }'
RNG = np.random.default_rng(0)
KERNEL, BIAS = RNG.normal(size=(4, 4)).astype(np.float32), RNG.normal(size=4).astype(np.float32)
X = RNG.normal(size=(3, 4)).astype(np.float32)


def _npz(folder: Path, **arrays: np.ndarray) -> Path:
    np.savez(folder / "w.npz", **arrays)
    return folder / "w.npz"


def test_a_square_kernel_of_an_undeclared_file_is_asked_about(tmp_path: Path):
    path = _npz(tmp_path, **{"proj.weight": KERNEL, "proj.bias": BIAS})
    model = model_from_text(SQUARE)
    before = model.get_weights()
    with pytest.raises(WeightsError, match=r"proj\.weight \[4, 4\] .*torch: transposed .*give system='torch' or"):
        model.load_weights(path)
    np.testing.assert_array_equal(model.weights["proj/kernel"], before["proj/kernel"])


@pytest.mark.parametrize("system", ["torch", "keras", "prototorch"])
def test_a_declared_system_gives_the_layout(tmp_path: Path, system: str):
    """GPT-2's Conv1D computes x @ weight, PyTorch's Linear x @ weight.T; both are called weight."""
    path = _npz(tmp_path, **{"proj.weight": KERNEL, "proj.bias": BIAS})
    model = model_from_text(SQUARE)
    model.load_weights(path, system=system)
    expected = X @ (KERNEL.T if system == "torch" else KERNEL) + BIAS
    np.testing.assert_allclose(model.predict(X, verbose=0), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("system", ["torch", "prototorch"])
def test_a_text_declares_the_system(tmp_path: Path, system: str):
    path = _npz(tmp_path, **{"proj.weight": KERNEL, "proj.bias": BIAS})
    text = tmp_path / "net.proto"
    text.write_text(f'{SQUARE} weights {{ source: "{path.name}"  system: "{system}" }}')
    model = pt.load_model(text)
    np.testing.assert_array_equal(model.weights["proj/kernel"], KERNEL.T if system == "torch" else KERNEL)


def test_a_file_of_torch_declares_itself(tmp_path: Path):
    layer = torch.nn.Linear(4, 4)
    torch.save({f"proj.{name}": value for name, value in layer.state_dict().items()}, tmp_path / "w.pth")
    model = model_from_text(SQUARE)
    model.load_weights(tmp_path / "w.pth")
    expected = layer(torch.from_numpy(X)).detach().numpy()
    np.testing.assert_allclose(model.predict(X, verbose=0), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("ending", ["weights.h5", "h5", "keras"])
def test_a_file_of_keras_declares_itself(tmp_path: Path, ending: str):
    net = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4, name="proj")])
    path = tmp_path / f"w.{ending}"
    (net.save_weights if ending == "weights.h5" else net.save)(path)
    model = model_from_text(SQUARE)
    model.load_weights(path, by_order=ending == "weights.h5")
    np.testing.assert_allclose(model.predict(X, verbose=0), net(X).detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", ["npz", "safetensors"])
def test_our_own_exports_need_no_declaration(tmp_path: Path, form: str):
    model, other = model_from_text(SQUARE), model_from_text(SQUARE)
    model.set_weights({"proj/kernel": KERNEL, "proj/bias": BIAS})
    model.export(tmp_path / f"w.{form}")
    other.load_weights(tmp_path / f"w.{form}")
    np.testing.assert_array_equal(other.weights["proj/kernel"], KERNEL)


@pytest.mark.parametrize("is_transposed", [True, False])
def test_shapes_decide_for_the_whole_file(tmp_path: Path, is_transposed: bool):
    arrays = {"attn": RNG.normal(size=(4, 12)), "proj": RNG.normal(size=(12, 12))}
    path = _npz(
        tmp_path,
        **{f"{n}.weight": np.float32(a.T if is_transposed else a) for n, a in arrays.items()},
        **{f"{n}.bias": np.zeros(12, np.float32) for n in arrays},
    )
    model = model_from_text(WIDE)
    model.load_weights(path)
    for name, array in arrays.items():
        np.testing.assert_array_equal(model.weights[f"{name}/kernel"], array.astype(np.float32))


def test_a_kernel_of_one_element_is_the_same_in_every_system(tmp_path: Path):
    path = _npz(tmp_path, **{"d.weight": np.full((1, 1), 3, np.float32), "d.bias": np.ones(1, np.float32)})
    model = model_from_text('name: "n" input { name: "x" shape: [1] } Dense { name: "d"  units: 1 }')
    model.load_weights(path)
    assert model.weights["d/kernel"] == 3


def test_a_file_that_contradicts_its_own_word_is_refused(tmp_path: Path):
    """GPT-2's safetensors say "pt"; their Conv1D kernels are [inputs, outputs], also the square ones."""
    arrays = {"attn.weight": RNG.normal(size=(4, 12)), "attn.bias": np.zeros(12), "proj.bias": np.zeros(12),
              "proj.weight": RNG.normal(size=(12, 12))}  # fmt: skip
    path = tmp_path / "gpt2.safetensors"
    save_file({name: np.ascontiguousarray(a, np.float32) for name, a in arrays.items()}, path, {"format": "pt"})
    model = model_from_text(WIDE)
    before = model.get_weights()
    for options in ({}, {"skip_mismatch": True}):
        with pytest.raises(WeightsError, match=r'Conv1D of GPT-2.*system="prototorch"'):
            model.load_weights(path, **options)
    for name, array in before.items():
        np.testing.assert_array_equal(model.weights[name], array)
    model.load_weights(path, system="prototorch")
    np.testing.assert_array_equal(model.weights["proj/kernel"], arrays["proj.weight"].astype(np.float32))


@pytest.mark.parametrize("name", ["secret", "secret.safetensors", "secret.h5", "secret.npz", "secret.pth"])
def test_a_message_quotes_nothing_of_a_file_that_is_none_of_weights(tmp_path: Path, name: str):
    content = b"hunter2:QkZx7 the-key-of-the-house\n" * 20
    (tmp_path / name).write_bytes(content)
    text = tmp_path / "net.proto"
    text.write_text(f'{SQUARE} weights {{ source: "{name}" }}')
    with pytest.raises(ModelFileError) as caught:
        pt.load_model(text)
    message = str(caught.value)
    assert name in message
    assert not any(piece in message for piece in ("hun", "QkZx", "the-key", "b'h", "'h'"))


def test_a_saved_model_beside_the_text_goes_before_one_in_the_working_directory(tmp_path: Path, monkeypatch):
    for folder, value in ((tmp_path / "texts", 1), (tmp_path / "work", 2)):
        folder.mkdir()
        model = model_from_text(SQUARE)
        model.set_weights({"proj/kernel": np.full((4, 4), value), "proj/bias": BIAS})
        model.save(folder / "w.h5")
    (tmp_path / "texts/net.proto").write_text(f'{SQUARE} weights {{ source: "w.h5" }}')
    monkeypatch.chdir(tmp_path / "work")
    assert (pt.load_model(tmp_path / "texts/net.proto").weights["proj/kernel"] == 1).all()


def test_a_compiled_function_is_no_file_of_weights(tmp_path: Path):
    function = pt.compile(lambda x: x * 2)
    function(pt.zeros(3))
    pt.save_compiled(function, tmp_path / "f.h5") if hasattr(pt, "save_compiled") else function.save(tmp_path / "f.h5")
    with pytest.raises(ModelFileError, match="not a saved model: it is a compiled function"):
        model_from_text(SQUARE).load_weights(tmp_path / "f.h5")
