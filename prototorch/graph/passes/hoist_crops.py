"""Crops of images come first: elementwise ops before a crop are applied to the cropped pixels only, and the crop reads
the images as they are given, as bytes where that is their dtype. The results are the same."""

from __future__ import annotations

from collections.abc import Sequence

from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.passes.context import PassContext
from prototorch.ops.crop import crop
from prototorch.spec import Spec

__all__ = ["hoist_crops"]


def hoist_crops(graph: Graph, context: PassContext) -> bool:
    """Move each crop before the elementwise ops whose result it alone reads."""
    changed = False
    for node in graph.nodes:
        chain = _elementwise_chain(graph, node) if node.op is crop else []
        if chain:
            _hoist(graph, node, chain)
            changed = True
    return changed


def _elementwise_chain(graph: Graph, node: Node) -> list[tuple[Node, int]]:
    """The ops before a crop that may come after it, the last one first, each with the number of its image input."""
    chain: list[tuple[Node, int]] = []
    x = node.inputs[0]
    while x.producer is not None and graph.has_single_use(x):
        image = _image_input(x.producer, node.phase)
        if image is None:
            break
        chain.append((x.producer, image))
        x = x.producer.inputs[image]
    return chain


def _image_input(node: Node, phase: str) -> int | None:
    """Which input of an elementwise op is the image, where the others are the same at all pixels of a channel."""
    if not node.op.elementwise or node.phase != phase or len(node.outputs) != 1:
        return None
    shape = node.outputs[0].shape
    images = [i for i, v in enumerate(node.inputs) if v.shape == shape]
    others = (v for i, v in enumerate(node.inputs) if i not in images)
    return images[0] if len(images) == 1 and all(set(v.shape[-2:]) <= {1} for v in others) else None


def _hoist(graph: Graph, node: Node, chain: Sequence[tuple[Node, int]]) -> None:
    """Crop what the chain begins with, then apply the chain to that."""
    shape = node.outputs[0].shape
    first, image = chain[-1]
    cropped = Value(graph, Spec(shape, first.inputs[image].dtype))
    inputs = (first.inputs[image], *node.inputs[1:])
    graph.insert_before(node, Node(node.op, inputs, node.attrs, (cropped,), node.scope, node.phase))
    for step, image in reversed(chain):
        result = Value(graph, Spec(shape, step.outputs[0].dtype))
        inputs = (*step.inputs[:image], cropped, *step.inputs[image + 1 :])
        graph.insert_before(node, Node(step.op, inputs, step.attrs, (result,), step.scope, step.phase))
        cropped = result
    graph.replace_all_uses(node.outputs[0], cropped)
    for dead in (node, *(step for step, _ in chain)):
        graph.erase(dead)
