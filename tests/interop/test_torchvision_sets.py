"""The sets of torchvision: the facts are those that it publishes, and its nets' weights go here and back."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import WeightsError
from prototorch.interop.weight_sets.registry import find_set, list_sets, sets_of_model
from prototorch.model.weights_block import Weights
from tests.interop.torchvision_nets import photo, save_state, torchvision_module, torchvision_net

SETS = {one.weights.name: one for one in list_sets()}
TORCHVISION = [name for name in SETS if name.startswith("torchvision/")]
ENUMS = {  # set -> the member of torchvision's enum
    "torchvision/alexnet": "AlexNet_Weights.IMAGENET1K_V1",
    "torchvision/densenet121": "DenseNet121_Weights.IMAGENET1K_V1",
    "torchvision/googlenet": "GoogLeNet_Weights.IMAGENET1K_V1",
    "torchvision/mobilenet_v2-v1": "MobileNet_V2_Weights.IMAGENET1K_V1",
    "torchvision/mobilenet_v2-v2": "MobileNet_V2_Weights.IMAGENET1K_V2",
    "torchvision/resnet101-v1": "ResNet101_Weights.IMAGENET1K_V1",
    "torchvision/resnet101-v2": "ResNet101_Weights.IMAGENET1K_V2",
    "torchvision/resnet18": "ResNet18_Weights.IMAGENET1K_V1",
    "torchvision/resnet50-v1": "ResNet50_Weights.IMAGENET1K_V1",
    "torchvision/resnet50-v2": "ResNet50_Weights.IMAGENET1K_V2",
    "torchvision/squeezenet1_0": "SqueezeNet1_0_Weights.IMAGENET1K_V1",
    "torchvision/squeezenet1_1": "SqueezeNet1_1_Weights.IMAGENET1K_V1",
    "torchvision/vgg16": "VGG16_Weights.IMAGENET1K_V1",
}


def enum_member(name: str):
    enum, member = ENUMS[name].split(".")
    return getattr(getattr(torchvision_module().models, enum), member)


def test_every_set_of_torchvision_has_its_enum():
    assert sorted(ENUMS) == sorted(TORCHVISION)


@pytest.mark.parametrize("name", sorted(ENUMS))
def test_the_facts_are_those_that_torchvision_publishes(name: str):
    declared, published = SETS[name], enum_member(name)
    weights, meta = declared.weights, published.meta
    accuracies = meta["_metrics"]["ImageNet-1K"]
    assert weights.address == published.url
    assert weights.digest == f"sha256:{published.url[-12:-4]}"
    assert (weights.top1, weights.top5) == (accuracies["acc@1"], accuracies["acc@5"])
    assert (weights.mebibytes, weights.recipe) == (meta["_file_size"], meta["recipe"])
    assert declared.class_names() == tuple(meta["categories"])
    assert ("imagenet" in weights.alias) == (published == type(published).DEFAULT) == ("DEFAULT" in weights.alias)
    assert published.name in weights.alias


@pytest.mark.parametrize("name", sorted(ENUMS))
@pytest.mark.parametrize("size", [(300, 401), (231, 97)], ids=str)
def test_the_preprocessing_is_that_of_torchvision(name: str, size: tuple[int, int]):
    from PIL import Image

    image = np.random.default_rng(size).integers(0, 256, (*size, 3)).astype(np.uint8)
    theirs = enum_member(name).transforms()(Image.fromarray(image)).numpy()
    x = pt.Input((3, 224, 224))
    model = pt.Model(x, pt.layers.Linear()(x), preprocess=SETS[name].weights.preprocess)
    np.testing.assert_allclose(model.predict(image.transpose(2, 0, 1)[None])[0], theirs, atol=2e-6)


# ---------------------------------------------------------------- weights, there and back

SMALL = {"squeezenet1_1": "squeezenet1_1", "mobilenet_v2": "mobilenet_v2", "resnet18": "resnet18"}
LARGE = {"squeezenet": "squeezenet1_0", "densenet121": "densenet121", "googlenet_torchvision": "googlenet",
         "alexnet_torchvision": "alexnet", "resnet50": "resnet50", "resnet101": "resnet101",
         "vgg16": "vgg16"}  # fmt: skip
FORMATS = ("zip", "legacy", "safetensors")


def assert_outputs_equal(model, net) -> None:
    """Our outputs for a photo are theirs, with their transforms, to 1e-4 of their range."""
    import torch
    from PIL import Image

    transform = enum_member(sets_of_model(model.name)[0].weights.name).transforms()
    with torch.no_grad():
        theirs = net(transform(Image.fromarray(photo()[0].transpose(1, 2, 0)))[None]).numpy()
    ours = model.predict(photo())
    ours = ours["logits"] if isinstance(ours, dict) else ours
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    assert np.ptp(theirs) > 0.1


def check_taken_strictly(path: Path, net) -> None:
    """A new net of torchvision takes the file with ``strict=True`` and has then the weights of ``net``."""
    import torch
    from safetensors.torch import load_file

    loaded = load_file(path) if path.suffix == ".safetensors" else torch.load(path, weights_only=True)
    other = copy.deepcopy(net)
    with torch.no_grad():
        for parameter in [*other.parameters(), *(b for b in other.buffers() if b.is_floating_point())]:
            parameter.zero_()
    other.load_state_dict(loaded, strict=True)
    for name, tensor in net.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            assert torch.equal(other.state_dict()[name], tensor), name


def check_there_and_back(name: str, theirs: str, folder: Path) -> None:
    net = torchvision_net(theirs)
    models = []
    for form in FORMATS:
        model = pt.load_model(name)
        report = model.load_weights(save_state(net, folder / f"{theirs}-{form}", form))
        assert (report.missing, report.unexpected, report.mismatched) == ((), (), ())
        models.append(model)
        for weight, array in models[0].weights.items():
            np.testing.assert_array_equal(array, model.weights[weight])
    model = pt.load_model(name, weights=str(folder / f"{theirs}-legacy"))
    renamed = (
        folder
        / SETS[
            f"torchvision/{theirs}" if f"torchvision/{theirs}" in SETS else f"torchvision/{theirs}-v1"
        ].weights.address.rpartition("/")[2]
    )
    (folder / f"{theirs}-zip").rename(renamed)
    model = pt.load_model(name, weights=str(renamed))  # the name of the set's file: its preprocessing as well
    assert_outputs_equal(model, net)
    for ending, names in ((".pth", "torchvision"), (".safetensors", sets_of_model(name)[0].weights.name)):
        model.export(folder / f"ours{ending}", names=names)
        check_taken_strictly(folder / f"ours{ending}", net)


@pytest.mark.parametrize(("name", "theirs"), SMALL.items())
def test_a_net_of_torchvision_loads_whole_and_computes_the_same(name: str, theirs: str, tmp_path: Path):
    check_there_and_back(name, theirs, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "theirs"), LARGE.items())
def test_a_large_net_of_torchvision_loads_whole_and_computes_the_same(name: str, theirs: str, tmp_path: Path):
    check_there_and_back(name, theirs, tmp_path)


def test_a_wrapped_state_loads_as_well(tmp_path: Path):
    net = torchvision_net("squeezenet1_1")
    path = save_state(net, tmp_path / "parallel.pt", "zip", "module.")
    report = pt.load_model("squeezenet1_1").load_weights(path)
    assert (report.missing, report.unexpected) == ((), ())


def test_an_enum_of_torchvision_is_its_set():
    member = enum_member("torchvision/resnet50-v1")
    declared = find_set(Weights.from_source(member).source, pt.load_model("resnet50").net)
    assert declared is not None
    assert declared.weights.name == "torchvision/resnet50-v1"


@pytest.mark.parametrize(("model", "theirs"), [("resnet18", "resnet50"), ("lenet", "squeezenet1_1")])
def test_the_file_of_another_net_is_an_error_that_names_its_model(model: str, theirs: str, tmp_path: Path):
    path = save_state(torchvision_net(theirs), tmp_path / "net.pt", "zip")
    with pytest.raises(WeightsError, match=f"belongs to the model '{theirs}'"):
        pt.load_model(model, weights=str(path))


def test_the_published_file_of_densenet_has_names_of_an_old_version(tmp_path: Path):
    """``denselayer1.norm.1.weight``: torchvision renames them when it loads its own file."""
    import torch

    net = torchvision_net("densenet121")
    pattern = re.compile(r"(denselayer\d+\.(?:norm|conv))([12])\.")
    state = {pattern.sub(r"\1.\2.", name): tensor for name, tensor in net.state_dict().items()}
    assert "features.denseblock1.denselayer1.norm.1.weight" in state
    path = tmp_path / "densenet121-a639ec97.pth"
    torch.save(state, path, _use_new_zipfile_serialization=False)
    model = pt.load_model("densenet121", weights=str(path))
    kernel = net.state_dict()["features.denseblock2.denselayer3.conv2.weight"].numpy()
    np.testing.assert_array_equal(model.weights["stage2/layer3/conv2/conv/kernel"], kernel)
    assert len(model.net.class_names) == 1000
