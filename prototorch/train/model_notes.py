"""Notes on a model that is valid and probably unintended: a loss that does not fit its output, random preprocessing."""

from __future__ import annotations

from math import inf, isfinite

from prototorch.engine.backends.precision import precision_note
from prototorch.graph.net import LayerNode, Net
from prototorch.layers.activation import Softmax
from prototorch.layers.base import Layer
from prototorch.layers.random_layer import RandomLayer
from prototorch.losses import Loss
from prototorch.text.case_conversion import snake_case
from prototorch.train.step_graph import StepGraphBuilder

__all__ = ["OutputActivation", "find_model_notes", "output_activation"]


class OutputActivation:
    """What a net's output ends with.

    node: the layer that decides the values of the output: the last that does not only rearrange them.
    layer: its activation, or the layer itself where it has none.
    bounds: of the output's elements for any input.
    """

    def __init__(self, node: LayerNode, bounds: tuple[float, float]):
        self.node, self.bounds = node, bounds
        self.layer: Layer = getattr(node.layer, "activation", node.layer)

    @property
    def name(self) -> str:
        """The type of the activation."""
        return type(self.layer).__name__

    def describe_bounds(self) -> str:
        """``whose values lie between 0 and 1``."""
        low, high = self.bounds
        return f"whose values lie between {low:g} and {high:g}"


def output_activation(net: Net, output: str) -> OutputActivation | None:
    """What an output ends with; None where its bounds depend on weights or on several layers."""
    producers = {top: node for node in net.nodes for top in node.tops}
    node = producers.get(output)
    while node is not None and node.layer.keeps_bounds and len(node.bottoms) == 1:
        node = producers.get(node.bottoms[0])
    bounds = None if node is None else node.layer.output_bounds(-inf, inf)
    return None if node is None or bounds is None else OutputActivation(node, bounds)


def find_model_notes(steps: StepGraphBuilder) -> list[str]:
    """All notes on a model, each one sentence with what was found, what is expected, and what to write."""
    net, config = steps.net, steps.config
    precision = None if config is None else precision_note(config.precision, steps.backend.precision)
    notes = [*net.warnings, *([] if precision is None else [precision])]
    for term in steps.loss_terms:
        if term.factor < 0 and term.loss.needs_target:
            notes.append(
                f"the loss {term.name} has the weight {term.factor:g}: training maximises a loss of negative weight; "
                "expected a weight of at least 0"
            )
        end = output_activation(net, term.output)
        note = None if end is None else _loss_note(term.loss, end)
        if note is not None:
            notes.append(note)
    return [*notes, *_preprocess_notes(net)]


def _loss_note(loss: Loss, end: OutputActivation) -> str | None:
    kind, node = type(loss).__name__, end.node
    units = getattr(node.layer, "units", None)
    if isinstance(end.layer, Softmax) and units == 1:
        return (
            f"{node.name!r} ends with Softmax over one element, which is always 1: write activation: sigmoid, "
            "or units for each class"
        )
    low, high = loss.output_bounds
    if getattr(loss, "from_logits", False):
        if end.bounds[0] >= 0 or all(map(isfinite, end.bounds)):
            return (
                f"{kind} {{ from_logits: true }} takes logits (scores before any softmax or sigmoid), but "
                f"{node.name!r} ends with {end.name}, {end.describe_bounds()}: leave out one of the two"
            )
        return None
    if end.bounds[0] >= low and end.bounds[1] <= high:
        if loss.output_activation is Softmax and not isinstance(end.layer, Softmax):
            return (
                f"{kind} takes the probabilities of classes, which add up to 1, but {node.name!r} ends with "
                f"{end.name}, whose elements do not add up to 1: "
                "write activation: softmax, or loss: binary_crossentropy"
            )
        return None
    what = "probabilities" if high == 1 else f"values of at least {low:g}"
    at_loss = "{ from_logits: true } at the loss, or " if hasattr(loss, "from_logits") else ""
    activation = "" if loss.output_activation is None else f"activation: {snake_case(loss.output_activation.__name__)}"
    return f"{kind} takes {what}, but {node.name!r} has the activation {end.name}: write {at_loss}{activation}"


def _preprocess_notes(net: Net) -> list[str]:
    """Layers of ``preprocess`` that are random in training and another operation outside of it."""
    notes = []
    for number, layer in enumerate(net.preprocess, 1):
        if isinstance(layer, RandomLayer) and not layer.is_identity_outside_training:
            name = f" {layer.name!r}" if layer.name else ""
            notes.append(
                f"preprocess layer {number} ({type(layer).__name__}{name}) is random in training and another operation "
                "outside of it: a random crop becomes a resize of the whole image, border included, so that objects "
                "have another size in evaluation and prediction. Put it into augment, which runs in training only and "
                "must keep the size: augment { ZeroPadding2D { padding: 4 }  RandomCrop { height: 32  width: 32 } } "
                "for images of 32 x 32"
            )
    return notes
