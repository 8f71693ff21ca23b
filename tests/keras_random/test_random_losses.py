"""Random losses beside Keras: values and gradients, with sample weights and masks."""

from __future__ import annotations

import inspect

import keras
import numpy as np
import pytest
import torch
from keras.src.backend import set_keras_mask

from prototorch import grad, ops, tensor
from prototorch.losses import Loss
from tests.keras_random.draw import drawing, seeds
from tests.keras_random.targets import peer_options, random_output, random_target
from tests.nets.random_fields import drawn

TOLERANCE = 2e-5  # float32: some ten operations on numbers of size 1


def losses_of_both():
    """The losses that Keras has by the same name."""
    return [cls for name, cls in Loss.members().items() if hasattr(keras.losses, name)]


def our_loss(loss, target, output, weight, mask):
    """The value and the gradient, as the step's graph reduces them."""
    x = tensor(output, requires_grad=True)
    each = loss.per_sample_loss(tensor(target), x, None if mask is None else tensor(mask))
    total = ops.sum(each * tensor(weight)) * (1.0 / len(output))
    return total.item(), grad(total, [x])[0].numpy()


def keras_loss(loss, target, output, weight, mask):
    """The same by Keras, whose weights have the shape of its values."""
    x, y = torch.tensor(output, requires_grad=True), torch.tensor(target)
    shape = tuple(loss.call(y, x).shape)
    weights = torch.tensor(weight.reshape(-1, *[1] * (len(shape) - 1))).expand(shape).clone()
    if mask is not None:
        set_keras_mask(x, torch.tensor(mask))
    value = loss(y, x, sample_weight=weights)
    value.backward()
    return float(value.detach()), x.grad.numpy()


def random_case(draw, cls):
    """A loss with a target, an output, weights of the samples and a mask or None."""
    shape = draw.choice([(5, 4), (4, 3, 4), (3, 2, 3, 4)])
    axis = {"axis": -1} if "axis" in cls.specs() else {}
    loss = drawn(cls, draw.random, shape[1:], **axis)
    output = random_output(draw, cls.__name__, getattr(loss, "from_logits", False), shape, loss.target_kind)
    target = random_target(draw, loss.target_kind, shape, getattr(loss, "ignore_class", None))
    weight = draw.choice([np.ones(len(output), np.float32), draw.uniform(0, 2, len(output))])
    mask = None
    if len(shape) == 3 and draw.chance():  # Keras joins masks with weights of the same rank only
        mask = draw.rng.random(shape[:2]) < 0.6
        mask[0] = True
    draw.config |= {"loss": loss, "shape": shape, "weight": weight, "mask": mask, "target": target}
    return loss, (target, output, weight, mask)


@pytest.mark.parametrize("seed", seeds(30, 300))
def test_loss_is_keras(seed):
    with drawing("losses", seed) as draw:
        classes = losses_of_both()
        cls = classes[seed % len(classes)]
        peer = getattr(keras.losses, cls.__name__)
        known = set(inspect.signature(peer.__init__).parameters)
        for _ in range(10):
            loss, arrays = random_case(draw, cls)
            try:
                theirs = keras_loss(peer(**peer_options(loss, known)), *arrays)
                break
            except RuntimeError:  # PyTorch lacks some gradients of what lies in memory in another order
                continue
        ours = our_loss(loss, *arrays)
        np.testing.assert_allclose(ours[0], theirs[0], rtol=TOLERANCE, atol=TOLERANCE)
        scale = max(1e-3, np.abs(theirs[1]).max())
        np.testing.assert_allclose(ours[1] / scale, theirs[1] / scale, rtol=0, atol=5 * TOLERANCE, err_msg="gradient")
