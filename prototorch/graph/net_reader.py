"""From an expanded text to a net: the layers, their connections, and the blocks that other packages read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import get_args

from prototorch.errors import UsageError, did_you_mean
from prototorch.graph.connect import (
    Connections,
    ParsedLayer,
    check_input_count,
    complete_top_names,
    loss_outputs,
)
from prototorch.graph.input_spec import NetInput
from prototorch.graph.net import InputNode, Net, in_input_format
from prototorch.graph.net_imports import read_imports
from prototorch.layers.base import Layer
from prototorch.layers.channels import DataFormat
from prototorch.schema import find_name_error, to_name
from prototorch.schema.suggest import describe_foreign_name
from prototorch.text.diagnostics import Report
from prototorch.text.gc_pause import pause_gc
from prototorch.text.name_resolution import TOP_LEVEL_FIELDS, string_values
from prototorch.text.nested_net import NET_WORD
from prototorch.text.source import Span
from prototorch.text.syntax_tree import Body, Document, Field, InvalidValue, Scalar, to_python_value

SECTIONS = ("weights", "compile", "fit")
LISTS = ("preprocess", "augment")
# fields that are often written at the top level, and the block they belong to
_BLOCK_OF_FIELD = {
    **dict.fromkeys(("epochs", "batch_size", "callbacks", "validation", "validation_split"), "fit"),
    **dict.fromkeys(("loss", "optimizer", "metrics", "seed", "device"), "compile"),
    **dict.fromkeys(("shape", "input_shape"), "input"),
    **dict.fromkeys(("learning_rate", "lr"), "compile { optimizer: ..."),
    **dict.fromkeys(("source", "dataset"), "fit { data"),
}
_EXAMPLE = "A model has an input and layers: input { shape: [4] }  Dense { units: 2 }"
_TOP_LEVEL_NAMES = (*TOP_LEVEL_FIELDS, "input", *LISTS, *SECTIONS)
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


@pause_gc()
def read_net(document: Document, report: Report, may_be_unread: bool = False) -> tuple[Net | None, dict[str, Field]]:
    """The net of an expanded document (None where there are mistakes: the report has them), and its other blocks.

    may_be_unread: whether layers may be there that nothing reads, as in a saved model whose losses were changed.
    """
    reader = _NetReader(document, report)
    reader.may_be_unread = may_be_unread
    net = reader.read()
    return net, reader.sections


class _NetReader:
    def __init__(self, document: Document, report: Report):
        self.document = document
        self.report = report
        self.sections: dict[str, Field] = {}
        self.lists: dict[str, tuple[Layer, ...]] = {}
        self.name = ""
        self.output: Field | None = None
        self.class_names: Field | None = None
        self.data_format: DataFormat | None = None  # of inputs and layers that state none
        self.connections = Connections(report, _all_names(document.fields), document.complete)
        self.current: str | None = None  # the output of the layer before
        self.may_be_unread = False
        self.reported_no_input = False  # it was reported that there is no input

    def read(self) -> Net | None:
        fields = self.document.fields
        foreign = next((f for f in fields if f.name in _CAFFE_FIELDS), None)
        if foreign is not None:
            message = (
                f"{foreign.name!r} belongs to Caffe's language, whose texts are read from files. Here a layer is named "
                "by its type, such as Conv2D { filters: 20  kernel_size: 5 }."
            )
            self.report.add(message, foreign.name_span)
            return None
        imports = read_imports(self.document, self.report)
        if imports is None:  # the names of its layers mean nothing
            return None
        self.read_data_format([f for f in fields if f.name == "data_format"])
        for f in fields:
            if f.name in ("input", "Input") and isinstance(f.value, Body):
                self.read_input(f, f.value)
        if len(self.connections.inputs) == 1 and self.current is None:
            self.current = next(iter(self.connections.inputs))
        for f in fields:
            self.read_field(f)
        inner = self.values_with_loss()
        outputs = self.read_outputs(inner)
        class_names = self.read_class_names()
        if self.connections.layers:
            if not self.may_be_unread:
                self.connections.report_unreachable([*outputs, *inner])
        elif self.connections.strict and not len(self.report):
            source = self.document.source
            is_empty = not self.document.statements
            message = f"The text {'is empty' if is_empty else 'has no layers'}. {_EXAMPLE}"
            self.report.add(message, Span(source, 0, 0) if source is not None else None)
        if any(not error.is_provisional for error in self.report.diagnostics):
            return None
        nodes = tuple(entry.node() for entry in self.connections.layers)
        if (data_format := self.data_format) is not None:
            nodes = tuple(replace(node, layer=node.layer.with_data_format(data_format)) for node in nodes)
        inputs = tuple(self.connections.inputs.values())
        return Net(
            self.name or self.default_name(),
            inputs,
            nodes,
            tuple(outputs),
            preprocess=in_input_format(self.lists.get("preprocess", ()), inputs),
            augment=in_input_format(self.lists.get("augment", ()), inputs),
            class_names=class_names,
            imports=imports,
        )

    def default_name(self) -> str:
        path = self.document.source.path if self.document.source is not None else None
        return to_name(PurePath(path).stem) if path else "model"

    # ------------------------------------------------------------------ the top level

    def read_field(self, f: Field) -> None:
        if not f.name:
            return  # a statement that could not be read
        if f.name == "name":
            self.name = self.read_string(f)
            self.check_name(self.name, f, is_title=True)
        elif f.name in ("input", "Input"):
            if not isinstance(f.value, Body | InvalidValue):
                self.report.add('An input is a block: input { name: "image"  shape: [3, 224, 224] }.', f.span)
        elif f.name == "output":
            self.check_given_once(f, self.output)
            self.output = f
        elif f.name == "class_names":
            self.check_given_once(f, self.class_names)
            self.class_names = f
        elif f.name in SECTIONS + LISTS:
            self.read_section(f)
        elif f.name in ("import", "data_format"):
            pass  # see `read_imports`, `read_data_format`
        elif isinstance(f.value, Body):
            if f.name == "data":
                self.report.add("Data are declared in the fit block: fit { data { ... } }.", f.name_span)
            else:
                self.current = self.read_layer(f, f.value, self.current) or self.current
        else:
            hint = (
                f" It belongs into {_BLOCK_OF_FIELD[f.name]} {{ }}."
                if f.name in _BLOCK_OF_FIELD
                else did_you_mean(f.name, _TOP_LEVEL_NAMES)
            )
            hint = hint or " Fields of a layer are written in its braces."
            message = f"There is no field {f.name!r} at the top level.{hint}"
            self.report.add(message, f.name_span, f.chain)

    def check_given_once(self, f: Field, before: Field | None) -> None:
        if before is not None:
            self.report.add(f"{f.name!r} is given twice.", f.name_span, f.chain)

    def read_string(self, f: Field) -> str:
        if isinstance(f.value, Scalar) and isinstance(f.value.value, str):
            return f.value.value
        if not isinstance(f.value, InvalidValue):
            word = to_python_value(f.value)
            example = word if isinstance(word, str) and word.lower() not in ("none", "null") else "lenet"
            self.report.add(f'The {f.name} is a string in quotes: {f.name}: "{example}".', f.value.span, f.chain)
        return ""

    def read_class_names(self) -> tuple[str, ...]:
        f = self.class_names
        if f is None or isinstance(f.value, InvalidValue):
            return ()
        names = string_values(f.value)
        if len(names) != len(getattr(f.value, "items", (f.value,))):
            message = 'The class_names are strings in quotes: class_names: ["cat", "dog"].'
            self.report.add(message, f.value.span, f.chain)
        return tuple(names)

    def check_name(self, name: str, f: Field, is_title: bool = False) -> None:
        error = find_name_error(name, is_title)
        if error is not None and not self.report.has_within(f.value.span):
            self.report.add(f"The {f.name} {error}.", f.value.span, f.chain)

    def read_data_format(self, fields: list[Field]) -> None:
        """The axis of the channels of inputs and layers that state none."""
        for before, f in zip((None, *fields), fields, strict=False):
            self.check_given_once(f, before)
            word = to_python_value(f.value)
            if word in get_args(DataFormat):
                self.data_format = word
            elif not isinstance(f.value, InvalidValue):
                message = "The data_format is channels_first or channels_last: data_format: channels_last."
                self.report.add(message, f.value.span, f.chain)

    def read_section(self, f: Field) -> None:
        if not isinstance(f.value, Body):
            if not isinstance(f.value, InvalidValue):
                self.report.add(f"{f.name!r} is a block: {f.name} {{ ... }}.", f.span)
            return
        if f.name == "weights" and any(g.name == "into" for g in f.value.fields):
            return  # there may be several: see `read_blocks`
        self.check_given_once(f, self.sections.get(f.name))
        self.sections[f.name] = f
        if f.name in LISTS:
            self.lists[f.name] = self.read_layer_list(f.value)

    def read_layer_list(self, body: Body) -> tuple[Layer, ...]:
        """The layers of ``preprocess`` and ``augment``: one after the other, without connections."""
        layers = []
        for f in body.fields:
            if not f.name:
                continue
            if f.name == NET_WORD or not isinstance(f.value, Body):
                nets = "A net stands among the layers of a net, not in preprocess or augment."
                message = nets if f.name == NET_WORD else f"Layers are expected here, not the field {f.name!r}."
                self.report.add(message, f.name_span, f.chain)
                continue
            cls = self.layer_class(f)
            one = cls.from_fields(f.value.fields, self.report.with_chain(f.chain), f.name_span) if cls else None
            if one is not None:
                layers.append(one)
        return tuple(layers)

    def read_input(self, f: Field, body: Body) -> None:
        declared = NetInput.from_fields(body.fields, self.report.with_chain(f.chain), f.name_span)
        if declared is not None:
            data_format = declared.data_format or self.data_format
            node = InputNode(declared.name, declared.shape, declared.dtype, data_format, f.name_span)
            self.connections.add_input(node)
        else:  # so that those who read it are not blamed
            for name in [n for g in body.fields if g.name == "name" for n in string_values(g.value)] or ["input"]:
                self.connections.tops[name] = f.name_span
                self.connections.layers_with_errors.add(name)
                self.current = name

    # ------------------------------------------------------------------ layers

    def layer_class(self, f: Field) -> type[Layer] | None:
        family = Layer.family_registry
        assert family is not None
        try:
            return Layer.lookup(f.name, self.report.imported_classes)
        except UsageError as error:
            if family.has(f.name, Layer):
                self.report.add(str(error), f.name_span, f.chain)
                return None
            hint = (
                describe_foreign_name(family.foreign_meaning(f.name), family.names())
                or did_you_mean(f.name, [*Layer.member_names(), *self.document.blocks, *_TOP_LEVEL_NAMES])
                or did_you_mean(f.name, family.names())
            )
            if not hint and not self.connections.strict:
                return None  # it may be a block whose definition could not be read
            hint = hint or " See 'prototorch layers' for all there are."
            self.report.add(f"There is no layer or block named {f.name!r}.{hint}", f.name_span, f.chain)
            return None

    def read_layer(self, f: Field, body: Body, current: str | None) -> str | None:
        """Add a layer, its branches before it; the name of its first output."""
        cls = self.layer_class(f)
        connection_fields: dict[str, list[Field]] = {"bottom": [], "top": [], "branch": []}
        rest = []
        for g in body.fields:
            connection_fields[g.name].append(g) if g.name in connection_fields else rest.append(g)
        name = next((n for g in rest if g.name == "name" for n in string_values(g.value)), "")
        report = self.report.with_chain(f.chain)
        named_bottoms = self.connections.read_bottoms(connection_fields["bottom"], name, f.chain)
        bottoms = named_bottoms
        has_inputs = bool(named_bottoms) or not connection_fields["bottom"]
        if connection_fields["branch"]:
            bottoms = self.read_branches(f, cls, connection_fields["branch"], named_bottoms, current)
        elif not connection_fields["bottom"] and (cls is None or cls.input_range() != (0, 0)):
            bottoms = (current,) if current is not None else ()
            if current is None:
                has_inputs = False
                self.report_no_input(f)
        layer = None
        if cls is not None:
            layer = cls.from_fields(rest, report, f.name_span)
            wrong = check_input_count(cls, bottoms, bool(connection_fields["branch"])) if has_inputs else None
            if wrong is not None and (self.connections.strict or layer is not None):
                report.add(wrong, f.name_span)
                self.connections.has_broken_links = True
        for g in connection_fields["top"]:
            for top in string_values(g.value):
                self.check_name(top, g)
        tops = complete_top_names(layer, name, [n for g in connection_fields["top"] for n in string_values(g.value)])
        if layer is not None and len(tops) > layer.output_count():
            message = f"{f.name} has {layer.output_count()} output(s), and {len(tops)} are named."
            report.add(message, connection_fields["top"][0].value.span)
        self.connections.add(ParsedLayer(name, f.name, layer, bottoms, tops, f.name_span, f.chain))
        return tops[0] if tops else None

    def report_no_input(self, f: Field) -> None:
        names = list(self.connections.inputs)
        self.connections.has_broken_links = True
        if (not names and self.reported_no_input) or not self.connections.strict:
            return
        self.reported_no_input = True
        if names:
            message = f'{f.name} may read one of several inputs: name it with bottom: "{names[0]}".'
        elif self.connections.layers_with_errors:
            return
        else:
            message = f"{f.name} has nothing to read: the net has no input before it. Write input {{ shape: [...] }}."
        self.report.add(message, f.name_span, f.chain)

    def read_branches(
        self,
        f: Field,
        cls: type[Layer] | None,
        branches: list[Field],
        named_bottoms: tuple[str, ...],
        current: str | None,
    ) -> tuple[str, ...]:
        """The layers of each branch, all reading the same layer; the names of their outputs."""
        if cls is not None and not getattr(cls, "accepts_branches", False):
            merging = [n for n, c in Layer.members().items() if getattr(c, "accepts_branches", False)]
            message = f"{cls.__name__} has no branches; {', '.join(merging)} have."
            self.report.add(message, branches[0].name_span, f.chain)
            self.connections.has_broken_links = True
        if len(named_bottoms) > 1:
            message = "All branches read one layer: with branches, bottom names one layer."
            self.report.add(message, f.name_span, f.chain)
        start = named_bottoms[0] if named_bottoms else current
        if start is None:
            self.report_no_input(f)
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
                    end = self.read_layer(inner, inner.value, end) or end
                else:
                    message = f"A branch holds layers, not the field {inner.name!r}."
                    self.report.add(message, inner.name_span, inner.chain or f.chain)
            ends.append(end if end is not None else "")
        return tuple(ends)

    # ------------------------------------------------------------------ outputs

    def read_outputs(self, inner: Sequence[str]) -> list[str]:
        """The net's outputs: as named; or else the last layer's, and every other one that the text gives a loss.

        inner: what `values_with_loss` gives."""
        layers = self.connections.layers
        names = self.connections.output_names(self.output)
        extra = inner if self.output is None else []
        if self.output is None and layers and layers[-1].tops:
            order = {top: number for number, p in enumerate(layers) for top in p.tops}
            return sorted({layers[-1].tops[0], *extra}, key=lambda top: order.get(top, -1))
        return list(dict.fromkeys([*names, *extra]))

    def values_with_loss(self) -> list[str]:
        """The outputs of layers that the text gives a loss, those of the net or inner ones."""
        return [name for f in self.loss_outputs() for name in self.connections.output_names(f, "output with a loss")]

    def loss_outputs(self) -> list[Field]:
        """The ``output`` fields of the losses in the compile block."""
        section = self.sections.get("compile")
        return [] if section is None else loss_outputs(section.value)


def _all_names(fields: tuple[Field, ...]) -> dict[str, Span | None]:
    """Every name and top of the text, branches included."""
    names: dict[str, Span | None] = {}
    for f in fields:
        if isinstance(f.value, Body):
            for g in f.value.fields:
                if g.name in ("name", "top"):
                    names.update(dict.fromkeys(string_values(g.value), f.name_span))
                elif g.name == "branch" and isinstance(g.value, Body):
                    names.update(_all_names(g.value.fields))
    return names
