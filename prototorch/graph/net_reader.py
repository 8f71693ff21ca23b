"""From an expanded text to a net: the layers, their wiring, and the blocks for others to read."""

from __future__ import annotations

from pathlib import PurePath

from prototorch.errors import UsageError, did_you_mean
from prototorch.graph.connect import Connections, PlacedLayer, check_input_count, complete_top_names
from prototorch.graph.input_spec import NetInput
from prototorch.graph.net import InputNode, Net
from prototorch.layers.base import Layer
from prototorch.text.diagnostics import Report
from prototorch.text.name_resolution import string_values
from prototorch.text.source import Span
from prototorch.text.syntax_tree import Body, Document, Field, InvalidValue, Scalar

SECTIONS = ("compile", "fit")
LISTS = ("preprocess", "augment")
# what people write at the top that has its place in a block
_BLOCK_OF_FIELD = {
    **dict.fromkeys(("epochs", "batch_size", "callbacks", "validation", "validation_split"), "fit"),
    **dict.fromkeys(("loss", "optimizer", "metrics", "seed", "device"), "compile"),
    **dict.fromkeys(("shape", "input_shape"), "input"),
    **dict.fromkeys(("learning_rate", "lr"), "compile { optimizer: ..."),
    **dict.fromkeys(("source", "dataset"), "fit { data"),
}
_TOP_LEVEL_FIELDS = ("name", "input", "output", *LISTS, *SECTIONS)
_CAFFE_FIELDS = (
    "layer",
    "layers",
    "base_lr",
    "solver_type",
    "lr_policy",
    "net",
    "train_net",
    "input_dim",
    "input_shape",
)


def read_net(document: Document, report: Report) -> tuple[Net | None, dict[str, Field]]:
    """The net of an expanded document (None where there are mistakes: the report has them), and its other blocks."""
    reader = _NetReader(document, report)
    net = reader.net()
    return net, reader.sections


class _NetReader:
    def __init__(self, document: Document, report: Report):
        self.document = document
        self.report = report
        self.sections: dict[str, Field] = {}
        self.lists: dict[str, tuple[Layer, ...]] = {}
        self.name = ""
        self.output: Field | None = None
        self.wiring = Connections(report, _all_names(document.fields), document.complete)
        self.current: str | None = None  # the output of the layer before
        self.starved = False  # it was said that there is no input

    def net(self) -> Net | None:
        fields = self.document.fields
        foreign = next((f for f in fields if f.name in _CAFFE_FIELDS), None)
        if foreign is not None:
            said = (
                f"{foreign.name!r} belongs to Caffe's language. Here a layer is named by its type, "
                "such as Conv2D { filters: 20  kernel_size: 5 }."
            )
            self.report.add(said, foreign.name_span)
            return None
        for f in fields:
            if f.name in ("input", "Input") and isinstance(f.value, Body):
                self.input(f, f.value)
        if len(self.wiring.inputs) == 1 and self.current is None:
            self.current = next(iter(self.wiring.inputs))
        for f in fields:
            self.top_level(f)
        outputs = self.outputs()
        if self.wiring.placed:
            self.wiring.reach(outputs)
        elif self.wiring.strict and not len(self.report):
            source = self.document.source
            self.report.add("The text has no layers.", Span(source, 0, 0) if source is not None else None)
        if len(self.report):
            return None
        nodes = tuple(placed.node() for placed in self.wiring.placed)
        return Net(
            self.name or self.default_name(), tuple(self.wiring.inputs.values()), nodes, tuple(outputs), **self.lists
        )

    def default_name(self) -> str:
        path = self.document.source.path if self.document.source is not None else None
        return PurePath(path).stem if path else "model"

    # ------------------------------------------------------------------ the top level

    def top_level(self, f: Field) -> None:
        if not f.name:
            return  # a statement that could not be read
        if f.name == "name":
            self.name = self.text(f)
        elif f.name in ("input", "Input"):
            if not isinstance(f.value, Body | InvalidValue):
                self.report.add('An input is a block: input { name: "image"  shape: [3, 224, 224] }.', f.span)
        elif f.name == "output":
            self.once(f, self.output)
            self.output = f
        elif f.name in SECTIONS + LISTS:
            self.block(f)
        elif isinstance(f.value, Body):
            if f.name == "data":
                self.report.add("The data stand in the fit block: fit { data { ... } }.", f.name_span)
            else:
                self.current = self.layer(f, f.value, self.current) or self.current
        else:
            near = (
                f" It belongs into {_BLOCK_OF_FIELD[f.name]} {{ }}."
                if f.name in _BLOCK_OF_FIELD
                else did_you_mean(f.name, _TOP_LEVEL_FIELDS)
            )
            said = f"There is no field {f.name!r} at the top level.{near or ' Fields of a layer stand in its braces.'}"
            self.report.add(said, f.name_span, f.chain)

    def once(self, f: Field, before: Field | None) -> None:
        if before is not None:
            self.report.add(f"{f.name!r} is given twice.", f.name_span, f.chain)

    def text(self, f: Field) -> str:
        if isinstance(f.value, Scalar) and isinstance(f.value.value, str):
            return f.value.value
        if not isinstance(f.value, InvalidValue):
            self.report.add(f"The {f.name} is a string in quotes.", f.value.span, f.chain)
        return ""

    def block(self, f: Field) -> None:
        if not isinstance(f.value, Body):
            if not isinstance(f.value, InvalidValue):
                self.report.add(f"{f.name!r} is a block: {f.name} {{ ... }}.", f.span)
            return
        self.once(f, self.sections.get(f.name))
        self.sections[f.name] = f
        if f.name in LISTS:
            self.lists[f.name] = self.plain_layers(f.value)

    def plain_layers(self, body: Body) -> tuple[Layer, ...]:
        """The layers of ``preprocess`` and ``augment``: one after the other, without wiring."""
        made = []
        for f in body.fields:
            if not f.name:
                continue
            if not isinstance(f.value, Body):
                self.report.add(f"Layers are expected here, not the field {f.name!r}.", f.name_span, f.chain)
                continue
            cls = self.layer_class(f)
            one = cls.from_fields(f.value.fields, self.report.within(f.chain), f.name_span) if cls else None
            if one is not None:
                made.append(one)
        return tuple(made)

    def input(self, f: Field, body: Body) -> None:
        made = NetInput.from_fields(body.fields, self.report.within(f.chain), f.name_span)
        if made is not None:
            self.wiring.add_input(InputNode(made.name, made.shape, made.dtype, f.name_span))
        else:  # so that those who read it are not blamed
            for name in [n for g in body.fields if g.name == "name" for n in string_values(g.value)] or ["input"]:
                self.wiring.tops[name] = f.name_span
                self.wiring.loose.add(name)
                self.current = name

    # ------------------------------------------------------------------ layers

    def layer_class(self, f: Field) -> type[Layer] | None:
        try:
            return Layer.lookup(f.name)
        except UsageError:
            names = Layer._family.names if Layer._family is not None else {}
            hint = did_you_mean(f.name, [*Layer.members(), *self.document.blocks, *_TOP_LEVEL_FIELDS]) or did_you_mean(
                f.name, names
            )
            if not hint and not self.wiring.strict:
                return None  # it may be a block whose definition could not be read
            hint = hint or " See 'prototorch layers' for all there are."
            self.report.add(f"There is no layer or block named {f.name!r}.{hint}", f.name_span, f.chain)
            return None

    def layer(self, f: Field, body: Body, current: str | None) -> str | None:
        """Place a layer, its branches before it; the name of its first output."""
        cls = self.layer_class(f)
        own: dict[str, list[Field]] = {"bottom": [], "top": [], "branch": []}
        rest = []
        for g in body.fields:
            own[g.name].append(g) if g.name in own else rest.append(g)
        name = next((n for g in rest if g.name == "name" for n in string_values(g.value)), "")
        report = self.report.within(f.chain)
        named = self.wiring.bottoms(own["bottom"], name, f.chain)
        bottoms = named
        known = bool(named) or not own["bottom"]
        if own["branch"]:
            bottoms = self.branches(f, cls, own["branch"], named, current)
        elif not own["bottom"] and (cls is None or cls.input_range() != (0, 0)):
            bottoms = (current,) if current is not None else ()
            if current is None:
                known = False
                self.nothing_to_read(f)
        layer = None
        if cls is not None:
            layer = cls.from_fields(rest, report, f.name_span)
            wrong = check_input_count(cls, bottoms, bool(own["branch"])) if known else None
            if wrong is not None and (self.wiring.strict or layer is not None):
                report.add(wrong, f.name_span)
                self.wiring.torn = True
        tops = complete_top_names(layer, name, [n for g in own["top"] for n in string_values(g.value)])
        if layer is not None and len(tops) > layer.output_count():
            said = f"{f.name} has {layer.output_count()} output(s), and {len(tops)} are named."
            report.add(said, own["top"][0].value.span)
        self.wiring.add(PlacedLayer(name, f.name, layer, bottoms, tops, f.name_span, f.chain))
        return tops[0] if tops else None

    def nothing_to_read(self, f: Field) -> None:
        names = list(self.wiring.inputs)
        self.wiring.torn = True
        if (not names and self.starved) or not self.wiring.strict:
            return
        self.starved = True
        if names:
            said = f'{f.name} may read one of several inputs: say which with bottom: "{names[0]}".'
        elif self.wiring.loose:
            return
        else:
            said = f"{f.name} has nothing to read: the net has no input before it. Write input {{ shape: [...] }}."
        self.report.add(said, f.name_span, f.chain)

    def branches(
        self, f: Field, cls: type[Layer] | None, branches: list[Field], named: tuple[str, ...], current: str | None
    ) -> tuple[str, ...]:
        """The layers of each branch, all from the same place; the names of what the branches give."""
        if cls is not None and not getattr(cls, "accepts_branches", False):
            merging = [n for n, c in Layer.members().items() if getattr(c, "accepts_branches", False)]
            said = f"{cls.__name__} has no branches; {', '.join(merging)} have."
            self.report.add(said, branches[0].name_span, f.chain)
            self.wiring.torn = True
        if len(named) > 1:
            said = "Branches start from one place: with branches, bottom names one layer."
            self.report.add(said, f.name_span, f.chain)
        start = named[0] if named else current
        if start is None:
            self.nothing_to_read(f)
        ends = []
        for branch in branches:
            end = start
            if not isinstance(branch.value, Body):
                self.report.add("A branch is a block: branch { ... }.", branch.span, f.chain)
                continue
            for inner in branch.value.fields:
                if not inner.name:
                    continue
                if isinstance(inner.value, Body):
                    end = self.layer(inner, inner.value, end) or end
                else:
                    said = f"A branch holds layers, not the field {inner.name!r}."
                    self.report.add(said, inner.name_span, inner.chain or f.chain)
            ends.append(end if end is not None else "")
        return tuple(ends)

    # ------------------------------------------------------------------ outputs

    def outputs(self) -> list[str]:
        """The net's outputs: as named, or the last layer's; and every other place where the text puts a loss."""
        placed = self.wiring.placed
        found = self.wiring.output_names(self.output)
        extra = [name for f in self.loss_outputs() for name in self.wiring.output_names(f, "output with a loss")]
        if self.output is None and placed and placed[-1].tops:
            order = {top: number for number, p in enumerate(placed) for top in p.tops}
            return sorted({placed[-1].tops[0], *extra}, key=lambda top: order.get(top, -1))
        return list(dict.fromkeys([*found, *extra]))

    def loss_outputs(self) -> list[Field]:
        """The ``output`` fields of the losses in the compile block."""
        section = self.sections.get("compile")
        if section is None:
            return []
        found: list[Field] = []
        for f in section.value.fields:
            if f.name == "loss":
                for item in getattr(f.value, "items", (f.value,)):
                    if isinstance(item, Body):
                        found.extend(
                            g for g in item.fields if g.name == "output" and not isinstance(g.value, InvalidValue)
                        )
        return found


def _all_names(fields: tuple[Field, ...]) -> dict[str, Span | None]:
    """Every name and top of the text, branches included."""
    found: dict[str, Span | None] = {}
    for f in fields:
        if isinstance(f.value, Body):
            for g in f.value.fields:
                if g.name in ("name", "top"):
                    found.update(dict.fromkeys(string_values(g.value), f.name_span))
                elif g.name == "branch" and isinstance(g.value, Body):
                    found.update(_all_names(g.value.fields))
    return found
