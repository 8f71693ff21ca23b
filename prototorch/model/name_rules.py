"""The declared rules that map the names of another system to ours: ``rules { map { from: ...  to: ... }  ... }``."""

from __future__ import annotations

from prototorch.schema import Block, example, field

__all__ = ["MapRule", "Rules"]


class MapRule(Block):
    """A layer of the file, or a single weight, and what it is in the net.

    Names of the file are written as the file writes them, with ``.`` (PyTorch) or ``/`` between their parts.
    """

    display_name = "map"

    from_: str = field(doc="Name in the file, of a layer or of a weight.")
    to: str = field(doc="Name in the net, of a layer or of a weight.")
    alias: list[str] = field([], doc="Other names that it has in some files, instead of `from`.")

    examples = [example('map { from: "layer1.0.conv1"  to: "stage1/block1/conv1" }')]


class Rules(Block):
    """How the names of a file are mapped to those of a net; in the model language, so that ``repeat`` may make them."""

    display_name = "rules"

    map: list[MapRule] = field([], doc="The layers, or single weights, one block for each.")
    ignore: list[str] = field([], doc="Patterns of the weights of the file that the net does not have.")
    strip: list[str] = field([], doc='Prefixes that are removed from the names of the file, such as "module.".')

    examples = [
        example('rules { map { from: "fc"  to: "logits" }  ignore: "**.num_batches_tracked" }'),
        example('rules { map { from: "fc1"  to: "dense1" }  map { from: "fc2"  to: "dense2" }  strip: "module." }'),
    ]
