"""What is written as ONNX runs in ONNX Runtime as here: all layers by their examples, masks, shipped models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import prototorch as pt
from prototorch import layers, ops
from prototorch.engine.harness.case import Case, cases
from prototorch.errors import UsageError
from prototorch.interop.conversion.convert import convert
from prototorch.interop.onnx.export import walker
from prototorch.interop.onnx.op_pairs import op_pairs, pair_by_our_op
from prototorch.interop.writers import output_formats
from prototorch.model.load import model_from_text
from prototorch.ops.operators import OPS
from tests.interop.onnx.exported import (
    assert_same,
    check_file,
    model_of,
    predictions,
    random_inputs,
    refusal_of,
    run_onnx,
    scatter_weights,
)

CASES = [c for c in cases() if False in c.phases and refusal_of(c) is None]
REFUSED = [c for c in cases() if refusal_of(c) is not None]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_every_layer_gives_in_onnx_runtime_what_it_gives_here(case: Case, tmp_path: Path):
    model = model_of(case)
    model.export(tmp_path / "net.onnx")
    check_file(tmp_path / "net.onnx")
    arrays = case.inputs("float32")
    for batch in (1, 3, 4):  # of one file: the batch size is left open
        inputs = {f"x{i}": np.concatenate([x, x])[:batch] for i, x in enumerate(arrays)}
        assert_same(predictions(model, inputs), run_onnx(tmp_path / "net.onnx", inputs))


@pytest.mark.slow
@pytest.mark.parametrize("opset", [13, 14, 17, 20, 21, 23, 25])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_every_layer_in_every_opset(case: Case, opset: int, tmp_path: Path):
    model = model_of(case)
    model.export(tmp_path / "net.onnx", opset=opset)
    assert check_file(tmp_path / "net.onnx").opset_import[0].version == opset
    inputs = {f"x{i}": x for i, x in enumerate(case.inputs("float32"))}
    assert_same(predictions(model, inputs), run_onnx(tmp_path / "net.onnx", inputs))


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: c.id)
def test_layers_of_one_batch_size_are_refused_in_words(case: Case, tmp_path: Path):
    with pytest.raises(UsageError, match=refusal_of(case)):
        model_of(case).export(tmp_path / "net.onnx")
    assert not list(tmp_path.iterdir())


_MASKED = {
    "lstm": "Embedding { input_dim: 9  output_dim: 3  mask_zero: true }  LSTM { units: 4  return_sequences: true }",
    "gru both ways": "Masking { }  Bidirectional { GRU { units: 3 } }",
    "reset before": "Masking { }  GRU { units: 3  reset_after: false  go_backwards: true  return_sequences: true }",
    "simple": "Masking { }  SimpleRNN { units: 3  return_sequences: true }  TimeDistributed { Dense { units: 2 } }",
    "attention": "Masking { }  MultiHeadAttention { num_heads: 2  key_dim: 3 }",
    "causal attention": "Masking { }  MultiHeadAttention { num_heads: 2  key_dim: 3  causal: true }",
    "mean": "Masking { }  Dense { units: 3  activation: tanh }  GlobalAveragePooling1D { }",
    "softmax": "Masking { }  Permute { dims: [2, 1] }  Softmax { }",
    "merged": "name: \"m\"  Multiply { branch { Masking { } } branch { Dense { units: 3 }  Masking { } } }",
    "normalized": "Masking { }  BatchNormalization { axis: -1 }  LayerNormalization { }  LSTM { units: 2 }",
}  # fmt: skip


@pytest.mark.parametrize("name", list(_MASKED))
def test_masks_count_as_they_do_here(name: str, tmp_path: Path):
    text = _MASKED[name]
    shape, dtype = ("[6]", "int32") if "Embedding" in text else ("[6, 3]", "float32")
    model = model_from_text(f'input {{ name: "x"  shape: {shape}  dtype: {dtype} }}  {text}')
    scatter_weights(model)
    model.export(tmp_path / "net.onnx")
    check_file(tmp_path / "net.onnx")
    x = random_inputs(model, 5)["x"]
    for sample, steps in enumerate((6, 3, 1, 0, 2)):  # also a sample of which no step counts, and one with a gap
        x[sample, steps:] = 0
    x[4, 0] = 0
    x[4, 4] = x[0, 4]
    for inputs in ({"x": x}, {"x": x[1:3]}):
        assert_same(predictions(model, inputs), run_onnx(tmp_path / "net.onnx", inputs))


@pytest.mark.parametrize("name", ["lenet", "transformer", "multi_task", "siamese", "autoencoder", "mlp"])
def test_a_shipped_model_runs_there(name: str, tmp_path: Path):
    _check_shipped(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(p.stem for p in Path("models").glob("*.proto")))
def test_every_shipped_model_runs_there(name: str, tmp_path: Path):
    _check_shipped(name, tmp_path)


def _check_shipped(name: str, folder: Path) -> None:
    model = pt.load_model(name)
    scatter_weights(model)
    model.export(folder / "net.onnx", include_preprocess=False)
    file = check_file(folder / "net.onnx")
    assert [i.name for i in file.graph.input] == list(model.inputs)
    assert [o.name for o in file.graph.output] == list(model.outputs)
    plain = pt.Model(model.net.__class__(**{**vars(model.net), "preprocess": (), "augment": ()}))
    plain.set_weights(model.get_weights())
    for batch in (1, 2):
        inputs = random_inputs(plain, batch)
        assert_same(predictions(plain, inputs), run_onnx(folder / "net.onnx", inputs))


def test_names_and_weights_are_kept(tmp_path: Path):
    model = model_from_text("""
        input { name: "image"  shape: [3, 8, 8] }
        Conv2D { name: "stem/conv"  filters: 4  kernel_size: 3  activation: relu }
        BatchNormalization { name: "stem/bn" }  Flatten { }
        Dense { name: "logits"  units: 5 }
    """)
    scatter_weights(model)
    model.export(tmp_path / "net.onnx")
    file = check_file(tmp_path / "net.onnx")
    assert [n.name for n in file.graph.node] == ["stem/conv", "stem/conv/Relu", "stem/bn", "flatten_1", "logits"]
    assert [n.op_type for n in file.graph.node] == ["Conv", "Relu", "BatchNormalization", "Flatten", "Gemm"]
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in file.graph.initializer}
    assert stored.keys() == model.weights.keys()
    assert all(np.array_equal(stored[name], array) for name, array in model.weights.items())
    assert file.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_a_file_tells_text_classes_and_preprocessing(tmp_path: Path):
    model = model_from_text("""
        name: "tiny"  input { name: "image"  shape: [3, 4, 4] }
        preprocess { Normalization { mean: [100, 110, 120]  variance: [9, 16, 25] } }
        Flatten { }  Dense { units: 2 }
        fit { data { source: "fashion_mnist"  classes: ["cat", "dog"] } }
    """)
    scatter_weights(model)
    image = np.random.default_rng(0).uniform(0, 255, (3, 3, 4, 4)).astype(np.float32)
    inside = model.export(tmp_path / "all.onnx", include_preprocess=True)
    assert inside == (str(tmp_path / "all.onnx"),)
    told = {p.key: p.value for p in check_file(tmp_path / "all.onnx").metadata_props}
    assert (told["model"], told["preprocess_included"], told["classes"]) == ("tiny", "true", "cat\ndog")
    assert "Normalization" in told["preprocess"]
    assert pt.load_model(_write(tmp_path / "again.proto", told["prototorch_text"])).net == model.net
    assert_same([model.predict(image)], run_onnx(tmp_path / "all.onnx", {"image": image}))
    model.export(tmp_path / "net.onnx", include_preprocess=False)
    ready = (image - np.array([100, 110, 120]).reshape(3, 1, 1)) / np.array([3, 4, 5]).reshape(3, 1, 1)
    assert_same([model.predict(image)], run_onnx(tmp_path / "net.onnx", {"image": ready.astype(np.float32)}))


def test_preprocess_is_included_and_the_input_has_the_elements_of_the_training_data(tmp_path: Path):
    images = np.random.default_rng(0).integers(0, 256, (8, 3, 4, 4)).astype(np.uint8)
    model = model_from_text("""
        input { name: "image"  shape: [3, 4, 4] }  preprocess { Rescaling { scale: 0.1  offset: -3 } }
        Flatten { }  Dense { units: 2  activation: softmax }
    """)
    model.compile(loss="sparse_categorical_crossentropy", optimizer="sgd")
    model.fit(images, np.arange(8) % 2, verbose=0)
    model.save(tmp_path / "net.h5")
    convert(str(tmp_path / "net.h5"), str(tmp_path / "net.onnx"))
    file = check_file(tmp_path / "net.onnx")
    assert file.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.UINT8
    assert_same([model.predict(images, verbose=0)], run_onnx(tmp_path / "net.onnx", {"image": images}))


def test_preprocess_that_onnx_does_not_have_stays_out_and_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model = model_from_text("""
        input { name: "text"  shape: [4]  dtype: int32 }
        preprocess { TextVectorization { max_tokens: 9  output_sequence_length: 4  vocabulary: ["a", "b"] } }
        Embedding { input_dim: 9  output_dim: 3 }  GlobalAveragePooling1D { }  Dense { units: 2 }
    """)
    scatter_weights(model)
    model.export(tmp_path / "net.onnx")
    assert "ONNX: the preprocessing (TextVectorization) is not in the file" in capsys.readouterr().err
    check_file(tmp_path / "net.onnx")


@pytest.mark.parametrize("name", ["net.py", "net.keras", "net.prototxt"])
def test_other_formats_say_that_preprocess_is_left_out(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]):
    model = model_from_text("""
        input { name: "x"  shape: [3, 4, 4] }  preprocess { Rescaling { scale: 0.1 } }  Flatten { }  Dense { units: 2 }
    """)
    scatter_weights(model)
    model.export(tmp_path / name, "caffe" if name.endswith("prototxt") else None)
    assert "the preprocessing (Rescaling) is not in the file" in capsys.readouterr().err


def test_a_file_tells_where_pretrained_weights_come_from(tmp_path: Path):
    model = model_from_text('input { name: "x"  shape: [3] }  Dense { units: 2 }')
    model.build()
    model.weight_origin = {"weights": "some/set", "license": "CC BY 4.0"}
    model.export(tmp_path / "net.onnx")
    told = {p.key: p.value for p in onnx.load(str(tmp_path / "net.onnx")).metadata_props}
    assert (told["weights"], told["license"]) == ("some/set", "CC BY 4.0")
    model.export(tmp_path / "net.py")
    assert "# license: CC BY 4.0" in (tmp_path / "net.py").read_text()


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_images_of_another_size_are_resized_in_the_graph(tmp_path: Path):
    model = model_from_text("""
        input { name: "image"  shape: [3, 6, 6] }  preprocess { Resizing { height: 6  width: 6 }
        Rescaling { scale: 0.1 } }  GlobalMaxPooling2D { }
    """)
    image = np.random.default_rng(0).uniform(0, 255, (2, 3, 9, 5)).astype(np.float32)
    model.export(tmp_path / "net.onnx", include_preprocess=True, shapes={"image": (3, 9, 5)})
    assert_same([model.predict(image)], run_onnx(tmp_path / "net.onnx", {"image": image}))


def test_weights_in_a_file_of_their_own(tmp_path: Path):
    model = model_from_text('input { name: "x"  shape: [5] }  Dense { units: 7 }  Dense { units: 3  use_bias: false }')
    scatter_weights(model)
    files = model.export(tmp_path / "net.onnx", external_data=True)
    assert files == (str(tmp_path / "net.onnx"), str(tmp_path / "net.onnx.data"))
    check_file(tmp_path / "net.onnx")
    inputs = random_inputs(model, 3)
    assert_same(predictions(model, inputs), run_onnx(tmp_path / "net.onnx", inputs))
    assert len((tmp_path / "net.onnx").read_bytes()) < 2000


def test_a_size_that_is_left_open_is_asked_for(tmp_path: Path):
    model = model_from_text('input { name: "x"  shape: [none, 3] }  LSTM { units: 2 }')
    model.build(x=[4, 3])
    with pytest.raises(UsageError, match=r"the input 'x' leaves sizes open \('x' has \[none, 3\]\); give the shapes"):
        model.export(tmp_path / "net.onnx")
    model.export(tmp_path / "net.onnx", shapes={"x": (4, 3)})
    inputs = random_inputs(model, 2)
    inputs["x"] = inputs["x"][:, :4]
    assert_same(predictions(model, inputs), run_onnx(tmp_path / "net.onnx", inputs))


@pytest.mark.parametrize(("options", "message"), [
    ({"opset": 7}, "opset 7 is not supported; use 13 to 25"), ({"opsets": 18}, "has no option 'opsets'.*opset"),
    ({"format": "onx"}, "no format 'onx'.*onnx"),
])  # fmt: skip
def test_wrong_options_are_told(options: dict, message: str, tmp_path: Path):
    model = model_from_text('input { name: "x"  shape: [5] }  Dense { units: 7 }')
    with pytest.raises(UsageError, match=message):
        model.export(tmp_path / "net.onnx", **options)
    assert not (tmp_path / "net.onnx").exists()


def test_an_older_file_stays_when_an_export_fails(tmp_path: Path):
    path = _write(tmp_path / "net.onnx", "what was there")
    model = model_from_text('input { name: "x"  shape: [none] }  Activation { activation: relu }')
    with pytest.raises(UsageError):
        model.export(path)
    assert path.read_text() == "what was there"


def test_an_unknown_ending_names_those_that_are_written(tmp_path: Path):
    model = model_from_text('input { name: "x"  shape: [5] }  Dense { units: 7 }')
    with pytest.raises(UsageError, match=r"\.onnx \(ONNX\)"):
        model.export(tmp_path / "net.xyz")


def test_a_layer_of_ones_own_is_written_by_its_ops(tmp_path: Path):
    class Wave(pt.Layer):
        """x * sin(x)."""

        def call(self, ctx, x):
            return x * ops.sin(x)

    model = pt.Sequential([pt.Input((4,)), Wave()])
    model.export(tmp_path / "net.onnx")
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    assert_same([model.predict(x)], run_onnx(tmp_path / "net.onnx", {model.inputs[0]: x}))


def test_shared_layers_and_transposed_weights(tmp_path: Path):
    model = model_from_text("""
        input { name: "x"  shape: [4]  dtype: int32 }
        Embedding { input_dim: 6  output_dim: 3  weights: "table" }  Dense { units: 3  weights: "d" }
        Dense { units: 3  weights: "d" }  Dense { units: 6  use_bias: false  weights: "table" }
    """)
    scatter_weights(model)
    model.export(tmp_path / "net.onnx")
    inputs = random_inputs(model, 2)
    assert_same(predictions(model, inputs), run_onnx(tmp_path / "net.onnx", inputs))


def test_every_op_of_a_net_that_predicts_is_in_the_table_or_named():
    """Left out are ops of a training step alone (gradients, updates, losses), composite ones, whose parts are written,
    and constants."""
    told = walker.inexpressible_ops()
    missing = [
        name
        for name, op in OPS.items()
        if hasattr(op, "is_composite")
        and not op.is_composite
        and not _is_for_training(name)
        and not walker.keeps_op(name, 18)
        and name not in told
    ]
    assert missing == []
    assert all(reason for reason in told.values())


def _is_for_training(name: str) -> bool:
    parts = ("_grad", "_update", "cross_entropy", "scatter", "fused", "prepack", "_view", "recompute", "reorder",
             "relabel", "crop", "slice_grad", "with_gates", "gather_pool", "full", "iota")  # fmt: skip
    return any(part in name for part in parts)


def test_rows_of_the_table_name_what_there_is():
    for pair in op_pairs():
        assert not pair.our_op or pair.our_op in OPS
        assert bool(pair.name) != bool(pair.reason)
        for layer in pair.layers:
            assert {a.ours for a in pair.fields.values()} <= set(layer.specs())
        for name in (pair.name, *pair.variants) if pair.name else ():
            schema = onnx.defs.get_schema(name)
            assert set(pair.fields) | set(pair.fixed_attributes) <= set(schema.attributes)
    assert pair_by_our_op("relu").layer is layers.ReLU


def test_the_formats_have_names_and_endings_of_their_own():
    formats = output_formats()
    assert "onnx" in [one.name for one in formats]
    assert len({one.name for one in formats}) == len(formats)
    endings = [ending for one in formats for ending in one.endings]
    assert len(set(endings)) == len(endings)
