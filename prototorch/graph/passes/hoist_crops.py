"""Pictures are cropped first: what is done to each pixel by itself is done to those that are kept, and the crop reads
the pictures as they came, as bytes where that is what they are. The numbers are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from prototorch.graph.ir import Node, Value
from prototorch.graph.passes.clone_graph import set_producer
from prototorch.ops.crop import crop
from prototorch.spec import Spec


def hoist_crops(nodes: Sequence[Node], live_out: Iterable[Value]) -> list[Node]:
    """The nodes with each crop before the elementwise ops whose result it alone reads."""
    readers = Counter(id(v) for node in nodes for v in node.inputs)
    readers.update(id(v) for v in live_out)
    gone: set[int] = set()
    made: list[Node] = []
    for node in nodes:
        chain = _elementwise_chain(node, readers) if node.op is crop else []
        if not chain:
            made.append(node)
            continue
        gone.update(id(step) for step, _ in chain)
        made += _hoisted_nodes(node, chain)
    return [node for node in made if id(node) not in gone]


def _elementwise_chain(node: Node, readers: Counter[int]) -> list[tuple[Node, int]]:
    """The ops before a crop that may come after it, the last one first, each with the number of its pictures' input."""
    found: list[tuple[Node, int]] = []
    x = node.inputs[0]
    while x.node is not None and readers[id(x)] == 1 and (at := _image_input(x.node, node.phase)) is not None:
        found.append((x.node, at))
        x = x.node.inputs[at]
    return found


def _image_input(step: Node, phase: str) -> int | None:
    """Which input is the pictures, where the others are the same at all pixels of a channel."""
    if not step.op.elementwise or step.phase != phase or len(step.outputs) != 1:
        return None
    shape = step.outputs[0].shape
    full = [i for i, v in enumerate(step.inputs) if v.shape == shape]
    others = (v for i, v in enumerate(step.inputs) if i not in full)
    return full[0] if len(full) == 1 and all(set(v.shape[-2:]) <= {1} for v in others) else None


def _hoisted_nodes(node: Node, chain: Sequence[tuple[Node, int]]) -> list[Node]:
    """The crop of what the chain begins with, then the chain."""
    y = node.outputs[0]
    last, at = chain[-1]
    x = last.inputs[at]
    small = Value(y.interpreter, Spec(y.shape, x.dtype), "node")
    made = [Node(node.op, (x, *node.inputs[1:]), node.attrs, (small,), node.scope, node.phase)]
    for k, (step, at) in reversed(list(enumerate(chain))):
        out = y if k == 0 else Value(y.interpreter, Spec(y.shape, step.outputs[0].dtype), "node")
        inputs = (*step.inputs[:at], small, *step.inputs[at + 1 :])
        made.append(Node(step.op, inputs, step.attrs, (out,), step.scope, step.phase))
        small = out
    for each in made:
        set_producer(each)
    return made
