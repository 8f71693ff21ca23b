"""Block: a class whose annotations are its schema.

    class Dense(Layer):
        units: int = field(min=1, doc="the number of outputs")
        use_bias: bool = True

``Dense(10)`` checks from Python, ``Dense.from_fields(...)`` checks from a text, ``dense.to_fields()`` writes one,
``Dense.manual()`` (schema.manual) documents it: all from that one declaration.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, Self

from prototorch.errors import UsageError
from prototorch.schema.block_source import copy_source, set_source, without_source
from prototorch.schema.examples import Example
from prototorch.schema.family import Family, to_typed_blocks
from prototorch.schema.fields import MISSING, FieldDeclaration, FieldSpec, field_type
from prototorch.schema.neutral_arguments import (
    NeutralArgument,
    drop_neutral,
    name_arguments,
    neutral_arguments,
    positional_names,
)
from prototorch.schema.overrides import CONFIG_METHODS, refuse_overrides
from prototorch.schema.suggest import describe_foreign_name, suggest
from prototorch.schema.types import python_name, text_name
from prototorch.schema.validation import ReportedError, ValidationError, describe_value
from prototorch.text.case_conversion import snake_case
from prototorch.text.diagnostics import Report
from prototorch.text.source import Span
from prototorch.text.syntax_tree import Body, Field, InvalidValue


class FieldRuleError(UsageError):
    """A rule across fields (``check``) is violated; ``field`` is the field to point at."""

    def __init__(self, message: str, field: str | None = None):
        super().__init__(message)
        self.field = field


class _Signature:
    """What `inspect.signature`, help and completion show of a block's class: its fields."""

    def __get__(self, instance: Any, cls: Any) -> inspect.Signature:
        if instance is not None or not cls.specs() or cls.__init__ is not Block.__init__:
            raise AttributeError("__signature__")
        parameters, positional = [], positional_names(cls)
        specs = {name: cls.specs()[name] for name in dict.fromkeys((*positional, *cls.specs())) if name in cls.specs()}
        for name, spec in specs.items():
            default = inspect.Parameter.empty if spec.required else _display_default(_convert_default(cls, spec))
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if name in positional else inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(name, kind, default=default))
        required_later = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters if p.default is p.empty]
        first = next((i for i, p in enumerate(parameters) if p.default is not p.empty), len(parameters))
        required_later = [p for p in required_later if p.name not in {q.name for q in parameters[:first]}]
        optional = [p for p in parameters[first:] if p.default is not p.empty]
        return inspect.Signature([*parameters[:first], *optional, *required_later])


class Block:
    """The base of everything that is declared: see the module."""

    family_registry: ClassVar[Family | None] = None
    declared_fields: ClassVar[dict[str, FieldDeclaration]] = {}
    _specs: ClassVar[dict[str, FieldSpec] | None] = None
    abstract: ClassVar[bool] = True
    display_name: ClassVar[str | None] = None  # what messages call it, where that is not the class's name
    aliases: ClassVar[Sequence[str]] = ()
    examples: ClassVar[Sequence[Example]] = ()
    #: names of this class in Caffe, PyTorch and old Keras, with what is written here: a name of ours, or a sentence
    foreign_names: ClassVar[Mapping[str, str]] = {}
    foreign_fields: ClassVar[Mapping[str, str]] = {}  # the same for names of fields
    #: the fields that may be given by position, in Keras' order, where that is not the order of their declaration
    positional: ClassVar[tuple[str, ...] | None] = None
    keyword_only: ClassVar[tuple[str, ...]] = ()  # fields that may not be given by position: those Keras does not have
    neutral_arguments: ClassVar[Mapping[str, NeutralArgument]] = {}  # arguments of Keras that have no meaning here
    take_other_arguments: ClassVar[Any] = staticmethod(lambda options: {})  # takes what is no field, gives attributes
    adopted_root: ClassVar[Any] = None  # the root of another family, whose members `coerce` takes too
    written_fields: ClassVar[frozenset[str]] = frozenset()  # those that a text always states, defaults too
    #: methods of other frameworks that nothing calls here, with what to write instead; see `refuse_overrides`
    methods_without_effect: ClassVar[Mapping[str, str]] = CONFIG_METHODS
    #: the classes of values of fields that are not declared, by the value's word: what a text says of weights by their
    #: names (``kernel: transpose("tok/embeddings")``)
    undeclared_values: ClassVar[Mapping[str, Any]] = {}
    setattr_hints: ClassVar[Mapping[str, str]] = {}  # by the name of a field, what is done in the place of setting it

    def __init_subclass__(cls, family: str | None = None, abstract: bool = False, **kwargs: Any) -> None:
        """``family=`` makes a root of a family; roots, ``abstract=True`` and a leading ``_`` are abstract.

        Raises UsageError for a method that would have no effect.
        """
        super().__init_subclass__(**kwargs)
        refuse_overrides(cls, cls.methods_without_effect)
        cls.abstract = abstract or family is not None or cls.__name__.startswith("_")
        if family is not None:
            cls.family_registry = Family(family)
        if cls.family_registry is not None:
            cls.family_registry.add_foreign_names(vars(cls).get("foreign_names", {}))
        cls._specs = None
        cls.declared_fields = {}
        annotations = inspect.get_annotations(cls)
        for name in annotations:
            if name.startswith("_") or _is_classvar(annotations[name]):
                continue
            if callable(getattr(Block, name, None)):
                raise UsageError(f"{cls.__name__}.{name}: a field cannot bear the name of a method of Block")
            value = vars(cls).get(name, MISSING)
            cls.declared_fields[name] = (
                value if isinstance(value, FieldDeclaration) else FieldDeclaration(default=value)
            )
            if value is not MISSING:
                delattr(cls, name)
        cls._annotations = _early_annotations(cls)  # type: ignore[attr-defined]
        if cls.family_registry is not None and not cls.abstract:
            cls.family_registry.add(cls, vars(cls).get("aliases", ()))

    __signature__ = _Signature()

    # ------------------------------------------------------------------ the schema

    @classmethod
    def specs(cls) -> dict[str, FieldSpec]:
        """The fields by name: a class's own first, then the inherited ones."""
        if cls._specs is None:
            cls._specs = {}
            specs: dict[str, FieldSpec] = {}
            for base in cls.__mro__:
                if not (issubclass(base, Block) and base is not Block):
                    continue
                annotations = _early_annotations(base) or _resolve_annotations(base)
                for name, declaration in base.declared_fields.items():
                    if name not in specs:
                        specs[name] = _make_spec(base, name, annotations[name], declaration)
            cls._specs = specs
        return cls._specs

    @classmethod
    def lookup(cls, name: str, imported: Collection[type] = ()) -> type[Self]:
        """The family's class of that name (class name, snake_case name or alias), see `Family.lookup`. Raises
        UsageError, with a suggestion where there is none."""
        assert cls.family_registry is not None, f"{cls.__name__} belongs to no family"
        return cls.family_registry.lookup(name, imported)

    @classmethod
    def type_name(cls) -> str:
        """The class's name by which tables and files know it; with its module where the name alone is that of a class
        of the package."""
        return cls.__name__ if cls.family_registry is None else cls.family_registry.type_name(cls)

    @classmethod
    def name_in_text(cls, as_word: bool = False) -> str:
        """The class's name in a text that is written, see `Family.name_in_text`."""
        assert cls.family_registry is not None, f"{cls.__name__} belongs to no family"
        return cls.family_registry.name_in_text(cls, as_word)

    @classmethod
    def members(cls) -> dict[str, type[Self]]:
        """The concrete classes of the family below this class, by class name, sorted."""
        assert cls.family_registry is not None, f"{cls.__name__} belongs to no family"
        return {name: c for name, c in cls.family_registry.members().items() if issubclass(c, cls)}

    @classmethod
    def member_names(cls) -> list[str]:
        """The class names of the whole family, sorted; unlike `members` it imports nothing."""
        assert cls.family_registry is not None, f"{cls.__name__} belongs to no family"
        return cls.family_registry.member_names()

    @classmethod
    def from_name(cls, name: str) -> Self:
        """The instance that one of its names alone stands for, as in ``activation: relu``: the one with defaults."""
        return cls()

    @classmethod
    def coerce(cls, value: Any) -> Self | None:
        """A hook for roots: an instance for some other Python value (a function as a loss, ...), or None."""
        return None

    # ------------------------------------------------------------------ from Python

    def __init__(self, *args: Any, **kwargs: Any):
        cls = type(self)
        if cls.abstract and cls.family_registry is not None:
            raise UsageError(f"{cls.__name__} is the root of a family: use one of {', '.join(cls.members())}.")
        specs = cls.specs()
        name_arguments(cls, args, kwargs)
        self.__dict__.update(cls.take_other_arguments(kwargs))
        if any(name not in specs for name in kwargs):
            drop_neutral(cls.__name__, neutral_arguments(cls), kwargs)
        for name in (n for n in kwargs if n not in specs):
            raise UsageError(_unknown_field_message(cls, name))
        values = self.__dict__
        for name, spec in specs.items():
            if name in kwargs:
                values[name] = _convert_value(cls, spec, kwargs[name])
            elif spec.default is MISSING:
                raise UsageError(f"{_display_name(cls)} needs {name!r} ({spec.type.describe()}).")
            else:
                values[name] = _convert_default(cls, spec)
        try:
            self.check()
        except FieldRuleError as error:
            raise FieldRuleError(f"{_display_name(cls)}: {error}", error.field) from None

    def check(self) -> None:
        """A hook for rules across fields; calls `refuse` if one is violated."""

    def refuse(self, message: str, field: str | None = None) -> NoReturn:
        """Raise a UsageError about this block; in a text it points at ``field``."""
        raise FieldRuleError(message, field)

    def replace(self, **changes: Any) -> Self:
        """A copy with other values in some fields."""
        copy = type(self)(**{**self.field_values(), **changes})
        copy_source(self, copy, changes)
        return copy

    def __getstate__(self) -> dict[str, Any]:
        return without_source(self.__dict__)

    def field_values(self) -> dict[str, Any]:
        """The fields' values by name."""
        return {name: self.__dict__[name] for name in type(self).specs()}

    def __setattr__(self, name: str, value: Any) -> None:
        cls = type(self)
        if name not in cls.specs() and name not in cls.setattr_hints:
            root = next(
                (base.__name__ for base in cls.__mro__ if getattr(base, "abstract", False) and base is not cls), "Block"
            )
            raise AttributeError(
                f"{cls.__name__} has no field {name!r}, and its objects take no other attributes: declare it in the "
                f"class, `class {cls.__name__}({root}): {name}: int = 8`, and leave __init__ out (docs/extending.md)"
            )
        hint = cls.setattr_hints.get(name, f"use .replace({name}=...) to get another one")
        raise AttributeError(f"{cls.__name__} is immutable; {hint}")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Block) and self.field_values() == other.field_values()

    def __hash__(self) -> int:
        return hash((type(self), *self.field_values().values()))

    def __repr__(self) -> str:
        parts, positional = [], True
        for name, spec in type(self).specs().items():
            value = self.__dict__[name]
            positional = positional and spec.required
            if spec.required or value != _convert_default(type(self), spec):
                parts.append(repr(value) if positional else f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(parts)})"

    # ------------------------------------------------------------------ from and to a text

    @classmethod
    def from_fields(cls, fields: Iterable[Field], report: Report, span: Span | None = None) -> Self | None:
        """An instance from the fields of a text; None after errors, which are reported.

        ``span`` is the location of the block's name, for missing fields and rules of the whole block.
        """
        specs = cls.specs()
        by_name, children, suggestions = cls._sort_fields(fields, report)
        self = cls.__new__(cls)
        values = self.__dict__
        for name, spec in specs.items():
            if spec.children and children:
                by_name.setdefault(name, []).append(Field(name, Body(tuple(children), span), span, span))
            if name in by_name:
                values[name] = _read_field(cls, spec, by_name[name], report)
            elif spec.default is not MISSING:
                values[name] = _convert_default(cls, spec)
            else:
                values[name] = MISSING
                if f"{text_name(name)!r}?" not in suggestions and "?" not in by_name:
                    report.add(f"{_display_name(cls)} needs {text_name(name)!r} ({spec.type.describe()}).", span)
        if suggestions or "?" in by_name or any(v is MISSING for v in values.values()):
            return None
        set_source(self, span, by_name)
        try:
            self.check()
        except UsageError as error:
            culprit = error.field if isinstance(error, FieldRuleError) else None
            at = by_name[culprit][0].value.span if culprit in by_name else span
            report.add(f"{_display_name(cls)}: {error}", at or span)
            return None
        return self

    @classmethod
    def _sort_fields(cls, fields: Iterable[Field], report: Report) -> tuple[dict[str, list[Field]], list[Field], str]:
        """The fields by name, the children, and the suggestions for unknown fields, which are reported."""
        specs = cls.specs()
        collector = next((spec for spec in specs.values() if spec.children), None)
        by_name: dict[str, list[Field]] = {}
        children: list[Field] = []
        suggestions = ""
        for f in fields:
            if not f.name:
                by_name["?"] = [f]  # a statement with a syntax error: its field is unknown
            elif (name := python_name(f.name)) in specs:
                by_name.setdefault(name, []).append(f)
            elif collector is not None and isinstance(f.value, Body):
                children.append(f)
            else:
                report.add(message := _unknown_field_message(cls, f.name), f.name_span or f.span)
                suggestions += message
        return by_name, children, suggestions

    def to_fields(self) -> list[Field]:
        """The fields that differ from their defaults, as a text writes them; ``from_fields`` reads them back equal."""
        fields: list[Field] = []
        for name, spec in type(self).specs().items():
            value = self.__dict__[name]
            is_default = not spec.required and value == _convert_default(type(self), spec)
            if is_default and name not in self.written_fields:
                continue
            if spec.children:
                children = value if isinstance(value, tuple) else (value,)
                fields.extend(Field(v.name_in_text(), Body(tuple(v.to_fields()))) for v in children)
            else:
                fields.append(Field(text_name(name), spec.type.write(value)))
        return fields


def _display_default(value: Any) -> Any:
    """A default as a person would write it: a block without set fields by its name."""
    if isinstance(value, Block) and not value.to_fields():
        return snake_case(type(value).__name__)
    return value


def _display_name(cls: type) -> str:
    return vars(cls).get("display_name") or cls.__name__


def _is_classvar(annotation: Any) -> bool:
    return "ClassVar" in (annotation if isinstance(annotation, str) else str(annotation))


def _early_annotations(cls: type) -> dict[str, Any] | None:
    """A class's own annotations, resolved where that is possible already (names of a function's locals included)."""
    annotations = vars(cls).get("_annotations")
    if annotations is not None:
        return annotations
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_name in ("__init_subclass__", "__new__"):
        frame = frame.f_back
    try:
        return inspect.get_annotations(cls, locals=dict(frame.f_locals), eval_str=True)
    except NameError:
        return None


def _resolve_annotations(cls: type) -> dict[str, Any]:
    """The annotations again, when the whole module is there."""
    try:
        return inspect.get_annotations(cls, eval_str=True)
    except NameError as unknown:
        raise UsageError(f"{cls.__name__}: an annotation names something unknown: {unknown}") from None


def _make_spec(cls: type, name: str, annotation: Any, declaration: FieldDeclaration) -> FieldSpec:
    kind = field_type(annotation, declaration, f"{cls.__name__}.{name}")
    default = MISSING if declaration.default is MISSING else _UnconvertedDefault(declaration.default)
    return FieldSpec(name, kind, default, declaration.doc, cls.__name__, declaration.children)


class _UnconvertedDefault:
    """A default before its conversion: its family may be incomplete when the class is created."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value


def _convert_default(cls: type, spec: FieldSpec) -> Any:
    """A field's default, converted once."""
    if type(spec.default) is _UnconvertedDefault:
        raw = spec.default.value
        spec.default = None if raw is None else _convert_value(cls, spec, raw)
    return spec.default


def _convert_value(cls: type, spec: FieldSpec, value: Any) -> Any:
    try:
        return spec.type.convert(value)
    except ValidationError as wrong:
        raise UsageError(_format_error(cls, spec, wrong, value)) from None


def _format_error(cls: type, spec: FieldSpec, wrong: ValidationError, value: Any) -> str:
    message = wrong.message or f"must be {spec.type.describe()}, not {describe_value(value)}"
    return f"{_display_name(cls)}.{text_name(spec.name)} {message}".rstrip(".") + "." + wrong.hint


def _unknown_field_message(cls: type[Block], name: str) -> str:
    foreign = next((h for base in cls.__mro__ if (h := vars(base).get("foreign_fields", {}).get(name))), None)
    names = [text_name(field) for field in cls.specs()]
    hint = describe_foreign_name(foreign, names) or suggest(name, names)
    if not hint and name in (table := neutral_arguments(cls)):
        hint = f" {table[name].hint[:1].upper()}{table[name].hint[1:]}."
    if not hint and names:
        hint = f" It has {', '.join(names[:12])}{', ...' * (len(names) > 12)}."
    return f"{_display_name(cls)} has no field {name!r}.{hint or ('' if names else ' It has none.')}"


def _read_field(cls: type, spec: FieldSpec, fields: list[Field], report: Report) -> Any:
    """The value of a field in a text; MISSING after an error, which is reported."""
    value = fields[0].value
    if any(isinstance(f.value, InvalidValue) for f in fields):
        return MISSING
    if len(fields) > 1:
        if not spec.type.repeatable:
            report.add(f"{_display_name(cls)}.{fields[1].name} is given twice.", fields[1].name_span)
            return MISSING
        bodies = [] if spec.type.is_list_of_blocks else [f.value for f in fields]
        if bodies and all(isinstance(b, Body) and not any(f.name == "type" for f in b.fields) for b in bodies):
            value = spec.type.merge_repeated([item for b in bodies for item in to_typed_blocks(b.fields)] or [value])
        else:
            value = spec.type.merge_repeated([f.value for f in fields])
    try:
        return spec.type.read(value, report)
    except ReportedError:
        return MISSING
    except ValidationError as wrong:
        at = wrong.span or value.span
        wrong_value = value
        if not wrong.message and wrong.span is not None and hasattr(value, "items"):
            wrong_value = next((i for i in value.items if i.span is wrong.span), value)
        report.add(_format_error(cls, spec, wrong, wrong_value), at)
        return MISSING
