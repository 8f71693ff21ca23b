"""From a net to its text: nesting, blocks, repeats, names; the text is read back and compared with the net."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prototorch.graph.net import LayerNode, Net
from prototorch.graph.net_reader import read_net
from prototorch.graph.net_writer import net_fields
from prototorch.interop.text_generation.block_search import BlockSearch
from prototorch.interop.text_generation.branches import nested_statements
from prototorch.interop.text_generation.concatenations import chain_concatenations
from prototorch.interop.text_generation.equivalence import find_difference
from prototorch.interop.text_generation.name_parts import is_automatic, split_name
from prototorch.interop.text_generation.rendering import Renderer
from prototorch.interop.text_generation.repeats import fold_runs
from prototorch.interop.text_generation.signatures import Signatures
from prototorch.interop.text_generation.statements import Reference, StatementList, is_number
from prototorch.layers.base import Layer
from prototorch.schema.names import find_name_error
from prototorch.text.call_style import to_calls
from prototorch.text.diagnostics import Report
from prototorch.text.loader import load_text
from prototorch.text.reader import parse
from prototorch.text.syntax_tree import Document, Field, ListValue, Scalar, Value
from prototorch.text.writer import format_document, format_fields, format_value

__all__ = ["GeneratedText", "NamePolicy", "generate_text"]

NamePolicy = Literal["auto", "keep", "drop", "all"]
_LONGER = 1.4  # how much longer a text with names may be than one without, before these are dropped


@dataclass(frozen=True)
class GeneratedText:
    """A text and the net that it reads as. names: the new name of each layer by its name in the net that was given.

    is_folded: False where the text is the plain list of layers, since no other one reads as the same net.
    """

    text: str
    net: Net
    names: Mapping[str, str]
    is_folded: bool = True


def generate_text(
    net: Net, *, names: NamePolicy = "auto", sections: Sequence[Field] = (), comments: Sequence[str] = ()
) -> GeneratedText:
    """The text of a net with blocks and repeats; it reads as the same net, but for the names of layers, and for
    concatenations that join again what an earlier one has joined (`chain_concatenations`).

    names: ``keep`` those that carry a meaning, where blocks and repeats can express them; ``drop`` those of layers
    that nothing refers to; ``auto`` keeps them unless the text becomes much longer; ``all`` keeps those of all layers
    with weights, for files that know them by these names. sections: further fields of the text (``compile``).
    comments: lines for its beginning, without ``#``.
    """
    net = chain_concatenations(net)
    policies = ("keep", "drop") if names == "auto" else (names,)
    texts = [t for t in (_generate(net, policy, sections, comments) for policy in policies) if t is not None]
    if len(texts) == 2 and _lines(texts[0]) > _LONGER * _lines(texts[1]) + 8:
        texts.reverse()
    if texts and not _exchanges_names(texts[0]):
        return texts[0]
    text = None if names == "all" else _generate(net, "all", sections, comments)
    return _flat(net, sections, comments) if text is None or _exchanges_names(text) else text


def _exchanges_names(generated: GeneratedText) -> bool:
    """Whether layers have the names that other layers had, all of them together: a file of weights by the old names
    would be read without an error, and wrongly."""
    with_weights = {node.name for node in generated.net.nodes if _has_weights(node.layer)}
    weights = {old: new for old, new in generated.names.items() if new in with_weights}
    return set(weights) == set(weights.values()) and any(old != new for old, new in weights.items())


def _has_weights(layer: Layer) -> bool:
    inner = (getattr(layer, name, None) for name in type(layer).specs())
    return any("initializer" in name for name in type(layer).specs()) or any(
        isinstance(one, Layer) and _has_weights(one) for one in inner
    )


def _lines(generated: GeneratedText) -> int:
    return generated.text.count("\n")


def _generate(net: Net, policy: str, sections: Sequence[Field], comments: Sequence[str]) -> GeneratedText | None:
    """The text with this policy of names; None where it does not read as the same net."""
    facts = _LayerFacts(net, policy)
    top, outputs = nested_statements(net, facts.fields, facts.name)
    if not top.items:
        return None
    search = _fold(top, outputs, facts)
    params = _class_params(net, facts)
    renderer = Renderer(
        [i.name for i in net.inputs], search.defaults, dict.fromkeys(params, "$classes"), search.blocks, top, outputs
    )
    lines = [f"# {comment}" for comment in comments]
    lines += [*format_fields(net_fields(Net(net.name, (), (), ()))[:1]).splitlines(), ""]
    if params:
        lines += [f"param classes: {next(iter(params.values()))}", ""]
    head = net_fields(Net(net.name, net.inputs, (), (), net.preprocess, net.augment))[1:]
    for field in head:
        if field.name != "output":
            lines += [*format_fields([field]).splitlines(), "" if field.name != "input" else "#"]
    lines = [line for line in lines if line != "#"]
    lines += renderer.lines()
    if sections:
        lines += ["", *format_fields(sections).splitlines()]
    text = format_document(to_calls(parse("\n".join(lines) + "\n", trivia=True)))
    report = Report()
    other, _ = read_net(load_text(text, report=report), report)
    if other is None:
        return None
    order = [node for item in top.items for node in item.nodes]
    if find_difference(net, other, order) is not None:
        return None
    new_names = {net.nodes[number].name: node.name for number, node in zip(order, other.nodes, strict=True)}
    return GeneratedText(text, other, new_names)


def _flat(net: Net, sections: Sequence[Field], comments: Sequence[str]) -> GeneratedText:
    document = to_calls(Document((*net_fields(net, sections), *sections)))
    text = "".join(f"# {comment}\n" for comment in comments) + format_document(document)
    return GeneratedText(text, net, {node.name: node.name for node in net.nodes}, is_folded=False)


def _fold(top: StatementList, outputs: Sequence[Reference], facts: _LayerFacts) -> BlockSearch:
    """Blocks and repeats in the place of what repeats."""
    readings: Counter[int] = Counter(r.node for body in top.bodies() for item in body.items for r in _own(item))
    readings.update(r.node for r in outputs if len(outputs) > 1 or r != Reference(top.items[-1].exit))
    signatures = Signatures()
    search = BlockSearch(top, readings, facts.defaults, signatures)
    for exact in (True, False):
        has_changed = True
        while has_changed:
            for body in list(search.bodies()):
                while fold_runs(body, readings, search.defaults, signatures, exact):
                    pass
            has_changed = search.replace_best()
    for body in list(search.bodies()):
        while fold_runs(body, readings, search.defaults, signatures, False):
            pass
    return search


def _own(item: Any) -> list[Reference]:
    """What a statement itself reads by name."""
    own = [b for b in item.bottoms or () if isinstance(b, Reference)]
    return own + [value for _, value in item.fields if isinstance(value, Reference)]


def _class_params(net: Net, facts: _LayerFacts) -> dict[tuple[int, str], int]:
    """The units of the layers that give the outputs, if these are of one number: the number of classes."""
    producers = {top: number for number, node in enumerate(net.nodes) for top in node.tops}
    result: dict[tuple[int, str], int] = {}
    for output in net.outputs:
        number = producers.get(output)
        while number is not None and type(net.nodes[number].layer).__name__ in ("Softmax", "Activation"):
            number = producers.get(net.nodes[number].bottoms[0])
        if number is None or type(net.nodes[number].layer).__name__ != "Dense":
            return {}
        result[number, "units"] = net.nodes[number].layer.field_values()["units"]
    return result if len(set(result.values())) == 1 and next(iter(result.values())) > 1 else {}


class _LayerFacts:
    """The fields and names of layers as statements hold them, and the defaults of fields."""

    def __init__(self, net: Net, policy: str):
        self.net = net
        self.policy = policy
        self.defaults: dict[tuple[str, str], Any] = {}
        self.shared = {node.layer.weights for node in net.nodes if node.layer.weights}
        self.varying: dict[str, list[str]] = {}  # class -> fields that a layer of the net does not leave out
        self.stated_fields = [{f.name: f.value for f in node.layer.to_fields()} for node in net.nodes]
        for node, fields in zip(net.nodes, self.stated_fields, strict=True):
            names = self.varying.setdefault(type(node.layer).__name__, [])
            names.extend(n for n in type(node.layer).specs() if n in fields and n not in names)
        self.names = self._choose_names()

    def fields(self, node: LayerNode) -> tuple[tuple[str, Any], ...]:
        """The fields of a layer: those that any layer of its class in this net states."""
        cls, stated = type(node.layer), self.stated_fields[self._numbers[node.name]]
        result: list[tuple[str, Any]] = []
        for name in self.varying[cls.__name__]:
            if name == "name":
                continue
            default = self._default(cls, name)
            if name in stated:
                result.append((name, _content(stated[name])))
            elif default is not None:
                result.append((name, default))
        result += [(name, _content(value)) for name, value in stated.items() if name not in cls.specs()]
        return tuple(result)

    def _default(self, cls: type[Layer], name: str) -> Any:
        """A field's default as a number, None where it is none; noted for what may be left out."""
        key = cls.__name__, name
        if key not in self.defaults:
            spec = cls.specs()[name]
            content: Any = None
            if not spec.required:
                value = _default_value(cls, name)
                content = 0 if name == "padding" and value == "valid" else None
                if value is not None and content is None:
                    content = _content(spec.type.write(value))
            self.defaults[key] = content if is_number(content) else None
        return self.defaults[key]

    def _choose_names(self) -> list[tuple[str, ...] | None]:
        self._numbers = {node.name: number for number, node in enumerate(self.net.nodes)}
        outputs = set(self.net.outputs)
        names: list[tuple[str, ...] | None] = []
        for node in self.net.nodes:
            has_weights = _has_weights(node.layer)
            is_output = bool(outputs.intersection(node.tops))
            is_named = is_output and len(outputs) > 1  # losses and metrics refer to outputs by their names
            if node.name in self.shared or is_named or (self.policy == "all" and has_weights):
                names.append((node.name,))
            elif is_automatic(node.name, has_weights or is_output) or (self.policy == "drop" and not is_output):
                names.append(None)
            else:
                parts = split_name(node.name)
                names.append(parts if find_name_error("".join(parts)) is None else (node.name,))
        counts = Counter("".join(parts) for parts in names if parts is not None)
        return [
            (self.net.nodes[i].name,) if parts is not None and counts["".join(parts)] > 1 else parts
            for i, parts in enumerate(names)
        ]

    def name(self, number: int) -> tuple[str, ...] | None:
        """The parts of a layer's name in the text, None for the automatic one."""
        return self.names[number]


def _default_value(cls: type[Layer], name: str) -> Any:
    spec = cls.specs()[name]
    default = spec.default
    return spec.type.convert(default.value) if hasattr(default, "value") and default.value is not None else default


def _content(node: Value) -> Any:
    """A number, a tuple of numbers, or the text of any other value."""
    if isinstance(node, Scalar) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return node.value
    if isinstance(node, ListValue) and node.items:
        items = tuple(_content(item) for item in node.items)
        if all(map(is_number, items)):
            return items
    return format_value(node)
