"""Nets of ours written as Caffe's, read back and compared: the same outputs from text and weights."""

import numpy as np
import pytest

import prototorch as pt
from prototorch.caffe.text.reader import read_net_file
from prototorch.errors import TextError
from prototorch.interop.conversion import convert
from prototorch.model.load import model_from_text

IMAGE = 'input { name: "x"  shape: [4, 9, 8] }\n'
VECTOR = 'input { name: "x"  shape: [6] }\n'
NETS = {
    "convolutions": IMAGE
    + """Conv2D { filters: 6  kernel_size: [3, 1]  padding: [1, 0]  activation: elu  use_bias: false }
        Conv2D { filters: 4  kernel_size: 2  strides: [2, 1]  dilation_rate: [1, 2]  groups: 2  activation: tanh }
        SeparableConv2D { filters: 8  kernel_size: 2  activation: ReLU { negative_slope: 0.5 } }
        DepthwiseConv2D { kernel_size: 3  depth_multiplier: 2  padding: same  activation: ReLU { max_value: 2 } }
        Conv2DTranspose { filters: 4  kernel_size: 2  strides: 2  activation: LeakyReLU { negative_slope: 0.2 } }""",
    "pooling": IMAGE
    + """MaxPooling2D { pool_size: 3  strides: 2  ceil_mode: true }
        AveragePooling2D { pool_size: 3  strides: 2  padding: 1  count_include_pad: true }
        UpSampling2D { size: [3, 2] }
        MaxPooling2D { pool_size: [2, 1]  strides: [1, 2] }
        GlobalAveragePooling2D { }
        Dense { units: 3 }""",
    "global pooling": IMAGE + "GlobalMaxPooling2D { }  Sigmoid { }",
    "local response": IMAGE + "LRN { size: 3  alpha: 0.1  beta: 0.5  k: 2 }",
    "windows": IMAGE
    + """Conv2D { filters: 2  kernel_size: 1  kernel_initializer: VarianceScaling {
            scale: 2  mode: fan_out  distribution: untruncated_normal } }
        LRN { size: 3  alpha: 0.1  region: within_channel }
        Unfold { kernel_size: [2, 1]  padding: [1, 0]  dilation_rate: [1, 2] }
        MaxPooling2D { name: "small" }
        CropLike { offsets: [1, 2]  bottom: ["unfold_1", "small"] }
        SpatialPyramidPooling2D { levels: 2  pooling: average }""",
    "batch axes": """input { name: "x"  shape: [3, 2, 5, 4] }
        Conv2D { filters: 4  kernel_size: [2, 1]  batch_axes: 2  kernel_initializer: PositiveUnitBall { } }
        Conv2DTranspose { filters: 2  kernel_size: 2  strides: 2  batch_axes: 2  kernel_initializer: Bilinear { } }""",
    "positions of maxima": IMAGE
    + """MaxPooling2D { name: "p"  pool_size: 3  strides: 2  padding: 1  ceil_mode: true  return_indices: true }
        Cast { name: "p/mask"  bottom: "p:1"  dtype: float32 }
        StochasticPooling2D { name: "s"  bottom: "x"  pool_size: [2, 3]  strides: 1 }
        output: ["p", "p/mask", "s"]""",
    "dense": IMAGE
    + """Conv2D { filters: 2  kernel_size: 3  activation: relu }
        Flatten { }
        Dense { units: 5  activation: sigmoid }
        Dropout { rate: 0.3 }
        Dense { units: 3  use_bias: false }""",
    "dense on the last axis": IMAGE + "Dense { units: 3 }",
    "functions": VECTOR
    + "Abs { }  Softplus { }  Power { exponent: 2 }  Rescaling { scale: 0.5  offset: 2 }  Log { }  Negative { }"
    + "Clip { min: -0.5  max: 0.25 }  Exponential { }  Sqrt { }  Reciprocal { }  SiLU { }  ReLU6 { }",
    "channels": IMAGE
    + """BatchNormalization { epsilon: 0.01 }
        Scale { use_bias: true }
        Bias { axis: 2  num_axes: 2 }
        PReLU { shared_axes: [2, 3]  alpha_initializer: Constant { value: 0.25 } }
        PReLU { shared_axes: [1, 2, 3]  alpha_initializer: Constant { value: 0.5 } }
        MeanVarianceNormalization { axis: [2, 3] }
        BatchNormalization { scale: false }
        Tile { repeats: 2  axis: 2 }
        SiLU { beta: 2 }
        Binarize { threshold: 0.1 }
        Softmax { axis: 1 }""",
    "weighted sums": IMAGE
    + """BatchNormalization { scale: false  center: false  weighted_sums: true  unbiased_moving_variance: true }
        FullLike { value: 2 }""",
    "merging": IMAGE
    + """Add { name: "sum"  branch { Conv2D { filters: 4  kernel_size: 1 } }  branch { ReLU { } } branch { } }
        Multiply { branch { Sigmoid { } }  branch { Tanh { } } }
        Subtract { branch { }  branch { Abs { } } }
        Maximum { branch { }  branch { Negative { } } }
        Average { branch { }  branch { Abs { } } }
        Concatenate { branch { }  branch { ELU { alpha: 0.5 } } }""",
    "shapes": IMAGE
    + """Reshape { target_shape: [8, 36] }
        Slice { axes: [1, 2]  starts: [2, 1]  stops: [7, 36] }
        ReduceMean { axis: [2] }""",
    "shared weights": VECTOR
    + """Dense { name: "a"  units: 6  weights: "both" }
        Dense { name: "b"  units: 6  weights: "both" }
        Dense { name: "c"  units: 6  share { weight: "kernel"  source: "both/kernel" } }""",
    "several inputs and outputs": """
        input { name: "a"  shape: [4] }
        input { name: "b"  shape: [4] }
        ReLU { name: "ra"  bottom: "a" }
        Add { name: "s"  bottom: ["ra", "b"] }
        Split { name: "parts"  bottom: "s"  sizes: [1, 3] }
        Dense { name: "d"  bottom: "parts:1"  units: 2 }
        output: ["d", "ra", "parts"]""",
}


def _arrays(model):
    draw = np.random.default_rng(0)
    return [draw.normal(size=(2, *i.shape)).astype(np.float32) for i in model.net.inputs]


@pytest.fixture
def convert_and_read(tmp_path):
    def run(model, **options):
        model.save(tmp_path / "net.h5")
        convert(str(tmp_path / "net.h5"), str(tmp_path / "net.prototxt"), to="caffe", **options)
        weights = tmp_path / "net.caffemodel"
        return pt.load_model(tmp_path / "net.prototxt", weights=weights if weights.exists() else None)

    return run


@pytest.mark.parametrize("name", NETS)
def test_outputs_are_the_same(name, convert_and_read):
    model = model_from_text(f'name: "net"\n{NETS[name]}')
    arrays = _arrays(model)
    ours = model.predict(arrays if len(arrays) > 1 else arrays[0])
    theirs = convert_and_read(model).predict(arrays if len(arrays) > 1 else arrays[0])
    ours, theirs = (y if isinstance(y, dict) else {"": y} for y in (ours, theirs))
    theirs = {output.removesuffix("_output"): y for output, y in theirs.items()}  # of one that layers read
    assert ours.keys() == theirs.keys()
    for output, y in ours.items():
        np.testing.assert_allclose(theirs[output], y, rtol=1e-5, atol=1e-6)


def test_the_text_is_that_of_a_person(tmp_path, convert_and_read):
    model = model_from_text(f'name: "net"\n{NETS["dense"]}')
    convert_and_read(model)
    layers = read_net_file(tmp_path / "net.prototxt")["layer"]
    assert [layer["type"] for layer in layers] == [
        "Input", "Convolution", "ReLU", "InnerProduct", "Sigmoid", "Dropout", "InnerProduct",
    ]  # fmt: skip
    assert layers[2]["bottom"] == layers[2]["top"]  # in place
    assert not any(layer.has("blobs") for layer in layers)
    assert "kernel_size: 3\n" in (tmp_path / "net.prototxt").read_text()


def test_shared_weights_have_one_name(tmp_path, convert_and_read):
    convert_and_read(model_from_text(f'name: "net"\n{NETS["shared weights"]}'))
    layers = read_net_file(tmp_path / "net.prototxt")["layer"]
    names = [[spec["name"] for spec in layer["param"]] for layer in layers if layer["type"] == "InnerProduct"]
    assert names == [["both/kernel", "both/bias"], ["both/kernel", "both/bias"], ["both/kernel", ""]]


def test_preprocessing_is_told_or_written(tmp_path, convert_and_read):
    text = f'name: "net"\n{VECTOR}preprocess {{ Rescaling {{ scale: 0.5 }} }}\nDense {{ units: 2 }}'
    model = model_from_text(text)
    (x,) = _arrays(model)
    np.testing.assert_allclose(convert_and_read(model).predict(x * 0.5), model.predict(x), rtol=1e-5)
    assert "#   preprocess { Rescaling { scale: 0.5 } }" in (tmp_path / "net.prototxt").read_text()
    again = convert_and_read(model, include_preprocess=True, force=True)
    np.testing.assert_allclose(again.predict(x), model.predict(x), rtol=1e-5)


MISTAKES = {
    "GELU { }": "layer 'gelu_1' (GELU): Caffe has no such layer",
    "Dense { units: 2  activation: gelu }": "the activation GELU: Caffe has no such layer",
    "Reshape { target_shape: [2, 3, 1] }  Conv2D { filters: 1  kernel_size: 2  padding: same }": "differs at the two",
    "BatchNormalization { axis: -1 }  Reshape { target_shape: [2, 3] }  BatchNormalization { axis: 2 }": "along axis 1",
    "Minimum { branch { }  branch { Abs { } } }": "Minimum",
    "Reshape { target_shape: [2, 3, 1] }  AveragePooling2D { pool_size: 3  strides: 1  padding: 1 }": "count_include",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_what_caffe_does_not_have_is_named(text, convert_and_read):
    with pytest.raises(TextError) as error:
        convert_and_read(model_from_text(f'name: "net"\n{VECTOR}{text}'))
    assert MISTAKES[text] in str(error.value)


def test_all_layers_that_caffe_does_not_have_are_named_at_once(convert_and_read):
    with pytest.raises(TextError) as error:
        convert_and_read(model_from_text(f'name: "net"\n{VECTOR}GELU {{ }}\nDense {{ units: 2 }}\nSELU {{ }}'))
    assert len(error.value.mistakes) == 2
