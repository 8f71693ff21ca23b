"""Weight sets of Keras' applications: declared is what Keras publishes, and its nets load and compute the same."""

import re
from pathlib import Path

import numpy as np
import pytest

import prototorch as pt
from prototorch.interop.weight_sets.registry import list_sets
from tests.interop.keras_nets import keras, predict, quiet, write

SETS = {one.weights.name: one for one in list_sets() if one.weights.name.startswith("keras/")}
APPLICATIONS = {
    "keras/vgg16": ("VGG16", "vgg16"),
    "keras/resnet50": ("ResNet50", "resnet"),
    "keras/resnet101": ("ResNet101", "resnet"),
    "keras/mobilenet_v2": ("MobileNetV2", "mobilenet_v2"),
    "keras/densenet121": ("DenseNet121", "densenet"),
}


def test_the_sets_are_these():
    assert set(SETS) == set(APPLICATIONS)


@pytest.mark.parametrize("name", APPLICATIONS)
def test_addresses_and_digests_are_in_keras_sources(name):
    """Keras puts addresses together from pieces; each piece is there, and the digest beside the file's name."""
    import keras.src.applications

    source = (Path(keras.src.applications.__file__).parent / f"{APPLICATIONS[name][1]}.py").read_text()
    joined = re.sub(r'"\s*\n?\s*f?"', "", source)
    folder, _, file = SETS[name].weights.address.rpartition("/")
    assert f"{folder}/" in joined
    if SETS[name].weights.digest:
        assert SETS[name].weights.digest.removeprefix("md5:") in source
    stem = file.split("_weights_")[0]
    assert stem in joined or stem.replace("resnet", "ResNet") in joined


@pytest.mark.parametrize("name", APPLICATIONS)
def test_the_preprocessing_is_that_of_keras(name):
    module = getattr(keras.applications, APPLICATIONS[name][1])
    image = np.random.default_rng(0).integers(0, 256, (1, 224, 224, 3)).astype(np.float32)
    theirs = module.preprocess_input(image.copy(), data_format="channels_last")
    x = pt.Input((3, 224, 224))
    model = pt.Model(x, pt.layers.Linear()(x), preprocess=SETS[name].weights.preprocess)
    ours = model.predict(np.moveaxis(image, -1, 1).copy(), verbose=0)
    np.testing.assert_allclose(np.moveaxis(ours, 1, -1), theirs, atol=1e-3 if abs(theirs).max() > 10 else 1e-5)


@quiet
def application(name, size):
    keras.backend.clear_session()
    kind = getattr(keras.applications, APPLICATIONS[name][0])
    model = kind(weights=None, input_shape=(size, size, 3), classifier_activation=None)
    rng = np.random.default_rng(0)
    for variable in model.weights:  # as an initializer would, so that no layer's outputs vanish or explode
        fan = np.prod(variable.shape[:-1]) if len(variable.shape) > 1 else 1
        value = rng.standard_normal(variable.shape) * np.sqrt(1.5 / fan) if len(variable.shape) > 1 else None
        if "variance" in variable.name or "gamma" in variable.name:
            value = rng.uniform(0.5, 1.5, variable.shape)
        variable.assign(rng.normal(0, 0.1, variable.shape) if value is None else value)
    return model


def check(name, folder):
    """The net saved as legacy ``.h5`` under the set's file name, and as ``.weights.h5``; outputs with the set's own
    preprocessing beside Keras'."""
    net = application(name, 224)
    path = Path(write(net, "legacy model", folder))
    path = path.rename(path.with_name(SETS[name].weights.address.rpartition("/")[2]))
    model = pt.load_model(SETS[name].weights.model, weights=str(path))
    image = np.random.default_rng(1).integers(0, 256, (1, 224, 224, 3)).astype(np.float32)
    preprocess = getattr(keras.applications, APPLICATIONS[name][1]).preprocess_input
    theirs = predict(net, preprocess(image.copy(), data_format="channels_last"))[0]
    ours = model.predict(np.moveaxis(image, -1, 1).copy(), verbose=0)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 * np.abs(theirs).max())
    assert np.ptp(theirs) > 1e-3
    other = pt.load_model(SETS[name].weights.model)
    report = other.load_weights(write(net, "weights", folder), rules=SETS[name].weights.rules)
    assert (report.missing, report.unexpected, report.mismatched) == ((), (), ())
    for weight, array in model.weights.items():
        np.testing.assert_array_equal(array, other.weights[weight])


def test_mobilenet(tmp_path):
    check("keras/mobilenet_v2", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(APPLICATIONS) - {"keras/mobilenet_v2"}))
def test_large_nets(tmp_path, name):
    check(name, tmp_path)
