"""``--mean``, ``--scale`` and ``--labels``: how a net of Caffe, whose file does not tell it, gets its images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

__all__ = ["image_options"]


def image_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command, which hands them to `prepare_images`."""
    mean = click.option("--mean", metavar="FILE|B,G,R", help="Subtract a mean: .binaryproto, .npy or 104,117,123.")
    scale = click.option("--scale", type=float, default=None, help="Multiply by this, after the mean is subtracted.")
    labels = click.option("--labels", metavar="FILE", help="Names of the classes, one a line (synset_words.txt).")
    return mean(scale(labels(function)))
