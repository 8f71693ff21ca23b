"""Pretrained nets in one line each. With --download the weights are fetched (once); without it the nets are new.

The lecture's three lines, adapted: the models are declared ones, with predict, and AlexNet is torchvision's by name.
There is no version by hand: shapes and numbers of parameters are compared with torchvision's.
"""

import argparse

import numpy as np

import prototorch as pt

parser = argparse.ArgumentParser()
parser.add_argument("--download", action="store_true", help="fetch the pretrained weights (about 1 GB)")
pretrained = parser.parse_args().download

alexnet = pt.models.alexnet_torchvision(pretrained=pretrained)
vgg16 = pt.models.vgg16(pretrained=pretrained)
resnet101 = pt.models.resnet101(pretrained=pretrained)

counts = {"alexnet_torchvision": 61_100_840, "vgg16": 138_357_544, "resnet101": 44_549_160 + 105_344}  # statistics
image = np.random.default_rng(0).uniform(0, 255, (1, 3, 224, 224)).astype(np.float32)
for model in (alexnet, vgg16, resnet101):
    scores = model.predict(image, verbose=0)
    assert model.count_params() == counts[model.name], model.name
    assert scores.shape == (1, 1000)
    print(f"{model.name}: {model.count_params():,} parameters, scores {list(scores.shape)}")
