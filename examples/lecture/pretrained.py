"""Pretrained nets in one line each. With --download the weights are fetched (once); without it the nets are new."""

import argparse

import numpy as np

import prototorch as pt

parser = argparse.ArgumentParser()
parser.add_argument("--download", action="store_true", help="fetch the pretrained weights (about 1 GB)")
pretrained = parser.parse_args().download

alexnet = pt.models.alexnet_torchvision(pretrained=pretrained)
vgg16 = pt.models.vgg16(pretrained=pretrained)
resnet101 = pt.models.resnet101(pretrained=pretrained)

image = np.random.default_rng(0).uniform(0, 255, (1, 3, 224, 224)).astype(np.float32)
for model in (alexnet, vgg16, resnet101):
    scores = model.predict(image, verbose=0)
    print(f"{model.name}: {model.count_params():,} parameters, scores {list(scores.shape)}")
