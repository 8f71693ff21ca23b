"""Older forms of nets and solvers, upgraded as ``src/caffe/util/upgrade_proto.cpp`` of BVLC/caffe does."""

import pytest

from prototorch.caffe.text.message import Message
from prototorch.caffe.text.message_types import enum_type, message_type
from prototorch.caffe.text.reader import read_message
from prototorch.caffe.text.upgrade import upgrade_net, upgrade_solver
from prototorch.caffe.text.upgrade_v0 import _FIELDS
from prototorch.caffe.text.upgrade_v1 import _TYPES as V1_TYPES
from prototorch.errors import ModelWarning, TextError


def _net(text):
    return upgrade_net(read_message(text, "NetParameter"))


def _same(old, new):
    assert _net(old) == read_message(new, "NetParameter")


V0 = """
name: "net" input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8 force_backward: true
layers { layer { name: "pad1" type: "padding" pad: 2 } bottom: "data" top: "padded" }
layers {
  layer {
    name: "conv1" type: "conv" num_output: 4 biasterm: false kernelsize: 3 group: 1 stride: 2
    weight_filler { type: "xavier" } bias_filler { value: 1 } blobs_lr: 1. blobs_lr: 2. weight_decay: 1 weight_decay: 0
    blobs { num: 1 data: 5 }
  }
  bottom: "padded" top: "conv1"
}
layers { layer { name: "relu1" type: "relu" } bottom: "conv1" top: "conv1" }
layers { layer { name: "pool1" type: "pool" pool: AVE kernelsize: 3 stride: 2 pad: 1 } bottom: "conv1" top: "pool1" }
layers { layer { name: "norm" type: "lrn" local_size: 3 alpha: 2 beta: 0.5 k: 3 } bottom: "pool1" top: "norm" }
layers { layer { name: "cat" type: "concat" concat_dim: 0 } bottom: "norm" bottom: "pool1" top: "cat" }
layers {
  layer {
    name: "fc" type: "innerproduct" num_output: 2 biasterm: true weight_filler { std: 1 } bias_filler { value: 2 }
  }
  bottom: "cat" top: "fc"
}
layers { layer { name: "drop" type: "dropout" dropout_ratio: 0.4 } bottom: "fc" top: "fc" }
"""
V0_NEWEST = """
name: "net" force_backward: true
layer { name: "input" type: "Input" top: "data" input_param { shape { dim: [1, 3, 8, 8] } } }
layer {
  name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 } blobs { num: 1 data: 5 }
  convolution_param {
    num_output: 4 bias_term: false pad: 2 kernel_size: 3 group: 1 stride: 2
    weight_filler { type: "xavier" } bias_filler { value: 1 }
  }
}
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer {
  name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
  pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }
}
layer {
  name: "norm" type: "LRN" bottom: "pool1" top: "norm" lrn_param { local_size: 3 alpha: 2 beta: 0.5 k: 3 }
}
layer { name: "cat" type: "Concat" bottom: "norm" bottom: "pool1" top: "cat" concat_param { concat_dim: 0 } }
layer {
  name: "fc" type: "InnerProduct" bottom: "cat" top: "fc"
  inner_product_param { num_output: 2 bias_term: true weight_filler { std: 1 } bias_filler { value: 2 } }
}
layer { name: "drop" type: "Dropout" bottom: "fc" top: "fc" dropout_param { dropout_ratio: 0.4 } }
"""


def test_v0_net():
    _same(V0, V0_NEWEST)


V0_DATA = {
    "data": ("Data", "data_param", "source: 'a' batch_size: 3 rand_skip: 4", "batchsize: 3 rand_skip: 4 source: 'a'"),
    "images": (
        "ImageData", "image_data_param",
        "source: 'a' batch_size: 3 rand_skip: 4 shuffle: true new_height: 5 new_width: 6",
        "source: 'a' batchsize: 3 rand_skip: 4 shuffle_images: true new_height: 5 new_width: 6",
    ),
    "window_data": (
        "WindowData", "window_data_param",
        "source: 'a' batch_size: 3 fg_threshold: 0.1 bg_threshold: 0.2 fg_fraction: 0.3 context_pad: 4 crop_mode: 'b'",
        "source: 'a' batchsize: 3 det_fg_threshold: 0.1 det_bg_threshold: 0.2 det_fg_fraction: 0.3 det_context_pad: 4 "
        "det_crop_mode: 'b'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("old_type", V0_DATA)
def test_v0_data_layers(old_type):
    new_type, param, new, old = V0_DATA[old_type]
    _same(
        f"layers {{ layer {{ type: '{old_type}' {old} scale: 2 meanfile: 'm' cropsize: 7 mirror: true }} top: 'x' }}",
        f"layer {{ type: '{new_type}' top: 'x' {param} {{ {new} }} "
        "transform_param { scale: 2 mean_file: 'm' crop_size: 7 mirror: true } }",
    )


def test_v0_sources_of_other_layers():
    _same(
        "layers { layer { type: 'hdf5_data' source: 'a' batchsize: 2 } top: 'x' }",
        "layer { type: 'HDF5Data' top: 'x' hdf5_data_param { source: 'a' batch_size: 2 } }",
    )
    _same(
        "layers { layer { type: 'infogain_loss' source: 'a' } }",
        "layer { type: 'InfogainLoss' infogain_loss_param { source: 'a' } }",
    )
    _same(
        "layers { layer { type: 'hdf5_output' hdf5_output_param { file_name: 'a' } } }",
        "layer { type: 'HDF5Output' hdf5_output_param { file_name: 'a' } }",
    )


def test_every_v0_field_has_a_place():
    others = {"name", "type", "blobs", "blobs_lr", "weight_decay", "scale", "meanfile", "cropsize", "mirror",
              "hdf5_output_param", "new_num", "new_channels"}  # fmt: skip
    assert set(_FIELDS) | others == set(message_type("V0LayerParameter").fields)
    for places in _FIELDS.values():
        for param, name in places.values():
            assert name in message_type(message_type("V1LayerParameter").fields[param].type).fields


def test_v0_fields_of_other_types_are_left_out_with_a_warning():
    with pytest.warns(ModelWarning, match=r"2:\d+: The V0 layer 'r' \(relu\) does not use the field num_output"):
        net = _net("\nlayers { layer { name: 'r' type: 'relu' num_output: 2 } }")
    assert net == read_message("layer { name: 'r' type: 'ReLU' }", "NetParameter")


MISTAKES = {
    "layers { layer { name: 'c' type: 'convo' } }": "unknown type 'convo'. Did you mean 'conv'",
    "layers { layer { name: 'c' } }": "has no type",
    "layers { layer { name: 'c' type: 'relu' } bottom: 'x' }": "reads the blob 'x'",
    "input: 'x' layers { layer { type: 'padding' } bottom: 'x' top: 'p' } "
    "layers { layer { name: 'r' type: 'relu' } bottom: 'p' }": "only conv and pool can",
    "input: 'x' layers { layer { type: 'padding' } bottom: 'x' top: 'p' } "
    "layers { layer { name: 'r' type: 'conv' } bottom: 'p' bottom: 'x' }": "2 bottoms",
    "input: 'x' layers { layer { type: 'padding' name: 'p' } bottom: 'x' bottom: 'x' top: 'p' } "
    "layers { layer { name: 'r' type: 'conv' } bottom: 'p' }": "one bottom and one top",
    "layers { name: 'a' }": "'a' has no type",
    "layer { type: 'ReLU' } layers { type: RELU }": "not both",
    "input: 'x' input_dim: 1 input_dim: 2": "2 input_dim fields; its 1 inputs need 4",
    "input: 'x' input: 'y' input_shape { dim: 1 }": "1 input_shape fields; its 2 inputs need 2",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_name_their_place(text):
    with pytest.raises(TextError) as error:
        _net("\n" + text)
    assert MISTAKES[text] in str(error.value)
    assert "<text>:2:" in str(error.value)


@pytest.mark.parametrize("old", [n for n in enum_type("V1LayerParameter.LayerType").values if n != "NONE"])
def test_every_v1_type(old):
    (layer,) = _net(f"layers {{ type: {old} }}")["layer"]
    assert layer["type"].lower() == old.lower().replace("_", "") or (old, layer["type"]) == (
        "SOFTMAX_LOSS",
        "SoftmaxWithLoss",
    )


def test_v1_types_are_all():
    assert {*V1_TYPES, "NONE"} == set(enum_type("V1LayerParameter.LayerType").values)


def test_v1_layer():
    _same(
        """layers { name: "a" type: CONVOLUTION bottom: "x" top: "y" param: "w" blob_share_mode: PERMISSIVE
             blobs_lr: 1 blobs_lr: 2 weight_decay: 0.5 loss_weight: 3 include { phase: TRAIN } exclude { min_level: 2 }
             convolution_param { num_output: 2 } blobs { data: 1 } loss_param { ignore_label: 1 } }""",
        """layer { name: "a" type: "Convolution" bottom: "x" top: "y" loss_weight: 3
             param { name: "w" share_mode: PERMISSIVE lr_mult: 1 decay_mult: 0.5 } param { lr_mult: 2 }
             blobs { data: 1 }
             include { phase: TRAIN } exclude { min_level: 2 } convolution_param { num_output: 2 }
             loss_param { ignore_label: 1 } }""",
    )


def test_v1_fields_go_to_fields_of_the_same_type():
    old, new = message_type("V1LayerParameter").fields, message_type("LayerParameter").fields
    kept = {n for n in old if n not in ("layer", "type", "param", "blob_share_mode", "blobs_lr", "weight_decay")}
    assert all(old[n].type == new[n].type and old[n].is_repeated == new[n].is_repeated for n in kept)


@pytest.mark.parametrize(
    ("old", "new", "param"),
    [("DATA", "Data", "data_param"), ("IMAGE_DATA", "ImageData", "image_data_param"),
     ("WINDOW_DATA", "WindowData", "window_data_param")],
)  # fmt: skip
def test_transformations_of_v1_data_layers(old, new, param):
    fields = "scale: 0.5 mean_file: 'm' crop_size: 3 mirror: true"
    _same(
        f"layers {{ type: {old} {param} {{ source: 's' {fields} }} }}",
        f"layer {{ type: '{new}' {param} {{ source: 's' }} transform_param {{ {fields} }} }}",
    )
    newest = f"layer {{ type: '{new}' {param} {{ source: 's' {fields} }} }}"
    _same(newest, newest)  # as in Caffe: of V1 layers only


def test_inputs():
    layer = "layer { name: 'input' type: 'Input' top: 'a' top: 'b' input_param { shape { dim: [1, 2, 3, 4] } shape { "
    _same(
        "input: 'a' input: 'b' input_dim: [1, 2, 3, 4, 5, 6, 7, 8] layer { name: 'x' }",
        layer + "dim: [5, 6, 7, 8] } } } layer { name: 'x' }",
    )
    _same("input: 'a' input: 'b' input_shape { dim: [1, 2, 3, 4] } input_shape { dim: 5 }", layer + "dim: 5 } } }")
    _same("input: 'a' layer { name: 'x' }", "layer { name: 'x' }")  # an old weight file


def test_batch_norms():
    zero = "param { lr_mult: 0 decay_mult: 0 } "
    _same(
        "layer { type: 'BatchNorm' param { } param { lr_mult: 1 } param { decay_mult: 2 } }",
        f"layer {{ type: 'BatchNorm' {3 * zero} }}",
    )
    for other in ("layer { type: 'BatchNorm' param { lr_mult: 1 } }", "layer { type: 'Scale' param { lr_mult: 1 } }"):
        _same(other, other)


def test_solver_type():
    for old, new in (
        ("SGD", "SGD"),
        ("NESTEROV", "Nesterov"),
        ("ADAGRAD", "AdaGrad"),
        ("RMSPROP", "RMSProp"),
        ("ADADELTA", "AdaDelta"),
        ("ADAM", "Adam"),
    ):
        assert upgrade_solver(Message("SolverParameter", solver_type=old)) == Message("SolverParameter", type=new)
    with pytest.raises(TextError, match="not both"):
        upgrade_solver(read_message("type: 'SGD' solver_type: ADAM", "SolverParameter"))


def test_the_message_itself_is_not_changed():
    old = read_message(V0, "NetParameter")
    before = old.copy()
    upgrade_net(old)
    assert old == before
