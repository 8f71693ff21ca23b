"""Families: the concrete classes under a root, found by name; and the field type that takes one of them."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from prototorch.base.index import Entry, entries
from prototorch.errors import UsageError
from prototorch.schema.foreign_classes import foreign_class_hint
from prototorch.schema.suggest import describe_foreign_name, suggest
from prototorch.schema.types import FieldType, ListOf, is_word_or_string, text_name
from prototorch.schema.validation import ReportedError, ValidationError
from prototorch.text.case_conversion import snake_case
from prototorch.text.diagnostics import Report
from prototorch.text.syntax_tree import Body, Field, ListValue, TypedBlock, Value, Word, to_python_value

MAX_LISTED_MEMBERS = 16  # a family with more of them is not listed in a message


_imported: dict[str, str] = {}  # Python module -> the name by which a text imported it


def record_imports(modules: Iterable[str], name: str) -> None:
    """Record the Python modules whose classes came with a text's line ``import: "name"``."""
    _imported.update(dict.fromkeys(modules, name))


def import_of(cls: type) -> str | None:
    """The name by which a text imported the module of a class; None for a class that no text has brought."""
    module = cls.__module__
    while module:
        if module in _imported:
            return _imported[module]
        module = module.rpartition(".")[0]
    return None


class Family:
    """The registry of one family: presence is registration.

    The package's own classes are known by the index, from the names in their files, and a module is imported when a
    name of it is asked for (`find`). Any other class is in the registry as soon as it is defined.

    A class of the package has its names alone; those of a user may bear any name, also one of the package's. What such
    a name means in a text, `lookup` says.
    """

    def __init__(self, name: str):
        self.name = name
        self._members: dict[str, type] = {}  # the classes that are defined, by their own names
        self._classes: dict[str, type] = {}  # ... by all their names
        self._namesakes: dict[str, list[type]] = {}  # users' classes under names that another class has
        self._foreign_names: dict[str, str] = {}

    def add(self, cls: type, aliases: Sequence[str]) -> None:
        """Register a class under its own name, its snake_case name and its aliases.

        The same class defined again (a cell run twice) takes the place of the old one. Raises UsageError for two
        classes of the package that have one name.
        """
        is_users = not _is_of_package(cls)
        for name in _all_names(cls.__name__, aliases):
            owner = self._classes.get(name)
            others = [other for other in self._namesakes.get(name, ()) if not _is_same(other, cls)]
            if is_users and (name in self._index or not (owner is None or _is_same(owner, cls))):
                self._namesakes[name] = [*others, cls]
            elif owner is None or _is_same(owner, cls):
                self._classes[name] = cls
            elif not _is_of_package(owner):
                self._classes[name], self._namesakes[name] = cls, [*others, owner]
            else:
                raise UsageError(
                    f"{_full_name(cls)} cannot be called {name!r}: the {self.name} {_full_name(owner)} has that name. "
                    "Give the class another name."
                )
        if self._classes.get(cls.__name__) is cls:
            self._members[cls.__name__] = cls

    def type_name(self, cls: type) -> str:
        """The class's name; with its module where the name alone is that of a class of the package."""
        owner = self.find(cls.__name__)
        is_own = owner is None or _is_same(owner, cls) or not _is_of_package(owner)
        return cls.__name__ if is_own else _full_name(cls)

    def name_in_text(self, cls: type, as_word: bool = False) -> str:
        """The name of a class in a text that is written; ``as_word``: in snake_case. Raises UsageError where a reader
        of the text would take it for another class's."""
        name = snake_case(cls.__name__) if as_word else cls.__name__
        is_imported = import_of(cls) is not None
        for other in () if _is_of_package(cls) else self._bearers(name):
            if not _is_same(other, cls) and (_is_of_package(other) or import_of(other) is not None or not is_imported):
                raise UsageError(
                    f"a text cannot name the {self.name} {_full_name(cls)}: {name!r} is also the name of "
                    f"{_full_name(other)}. Give the class another name"
                )
        return name

    def add_foreign_names(self, names: Mapping[str, str]) -> None:
        """Names of other frameworks, with what is written here: a name of the family, or a sentence."""
        self._foreign_names.update({_plain_name(name): meaning for name, meaning in names.items()})

    def foreign_meaning(self, name: str) -> str | None:
        """What is written here for a name of another framework; None where it is not known."""
        self.members()  # which say what they are called elsewhere
        return self._foreign_names.get(_plain_name(name))

    def suggest(self, name: str, names: Collection[str]) -> str:
        """The hint for a name that is none of ``names``: what it is in another framework, else the nearest one."""
        return describe_foreign_name(self.foreign_meaning(name), names) or suggest(name, names)

    def find(self, name: str) -> type | None:
        """The class that has a name; None where there is none. Users' classes of a name that the package has are not
        found by it."""
        if name not in self._classes and (entry := self._index.get(name)) is not None:
            importlib.import_module(entry.module)  # registers it
        return self._classes.get(name)

    def lookup(self, name: str, imported: Collection[type] = (), root: type = object) -> type:
        """The class below ``root`` that a name means in a text whose ``import:`` lines brought ``imported``.

        That is the package's class, or one of those imported, or else the only one that the program has defined. Raises
        UsageError, with the nearest known name where there is none, and with both where the name may mean two.
        """
        classes = [cls for cls in self._bearers(name) if issubclass(cls, root)]
        here = [cls for cls in classes if _is_of_package(cls) or cls in imported] or classes
        if len(here) > 1:
            raise UsageError(
                f"{name!r} may mean the {self.name} {_full_name(here[0])} or {_full_name(here[1])}: give a class "
                "of your own another name."
            )
        if not here:
            raise UsageError(f"There is no {self.name} named {name!r}.{self.suggest(name, self.names())}")
        return here[0]

    def has(self, name: str, root: type) -> bool:
        """Whether a name is that of a class below ``root``."""
        return any(issubclass(cls, root) for cls in self._bearers(name))

    def names(self) -> list[str]:
        """All names: class names, snake_case names and aliases; nothing is imported."""
        return [*self._index, *(name for name in self._classes if name not in self._index)]

    def names_of(self, cls: type) -> list[str]:
        """The names of a class: its own, in snake_case, and its aliases."""
        return [name for name, member in self._classes.items() if member is cls]

    def member_names(self) -> list[str]:
        """The names of the classes; nothing is imported."""
        return sorted({entry.name for entry in self._index.values()} | set(self._members))

    def members(self) -> dict[str, type]:
        """All classes by their own names, sorted. Imports their modules."""
        for entry in self._index.values():
            importlib.import_module(entry.module)
        return dict(sorted(self._members.items()))

    @contextmanager
    def temporary_members(self) -> Iterator[None]:
        """Classes that are defined inside are removed afterwards."""
        self.members()
        tables: tuple[dict[str, Any], ...] = (self._members, self._classes, self._namesakes)
        copies = [dict(table) for table in tables]
        try:
            yield
        finally:
            for table, before in zip(tables, copies, strict=True):
                table.clear()
                table.update(before)

    @cached_property
    def _index(self) -> dict[str, Entry]:
        """The entries of the package's own classes by all their names."""
        return {
            name: entry
            for entry in entries(self.name)
            for name in _all_names(entry.name, entry.facts.get("aliases", ()))
        }

    def _bearers(self, name: str) -> list[type]:
        """The classes of a name: the one that `find` gives, and users' others."""
        owner = self.find(name)
        return [*([] if owner is None else [owner]), *self._namesakes.get(name, ())]


def _all_names(name: str, aliases: Iterable[str]) -> Iterable[str]:
    """The names of a class in texts: its own, in snake_case, and its aliases."""
    return dict.fromkeys((name, snake_case(name), *aliases))


def _plain_name(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _is_same(cls: type, other: type) -> bool:  # one class is the other, or the other defined again
    return _full_name(cls) == _full_name(other)


def _is_of_package(cls: type) -> bool:
    return cls.__module__.startswith("prototorch.")


@dataclass(frozen=True)
class FamilyMember(FieldType):
    """A member of a family (below ``root``): an instance, its class, its name, or in a text a typed block."""

    root: Any  # a Block class that belongs to a family

    @property
    def _name(self) -> str:
        return str(vars(self.root).get("display_name") or self.root.family_registry.name)

    def describe(self) -> str:
        name = self._name
        return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"

    def label(self) -> str:
        return self._name

    def convert(self, value: Any) -> Any:
        if isinstance(value, self.root):
            return value
        if isinstance(value, type) and issubclass(value, self.root):
            return value()
        if isinstance(value, str):
            adopted = self._adopted(value)
            return self._class(value).from_name(value) if adopted is None else self.root.coerce(adopted.convert(value))
        if hint := foreign_class_hint(self.root, value if isinstance(value, type) else type(value)):
            raise ValidationError(hint=hint, right_kind=True)
        other = self.root.coerce(value)
        if other is not None:
            return other
        raise ValidationError

    def _adopted(self, name: str) -> FamilyMember | None:
        """The other family that a name is taken from, None where it is a name of this one, or of none."""
        family: Family = self.root.family_registry
        other = self.root.adopted_root
        return FamilyMember(other) if other and family.find(name) is None and other.family_registry.find(name) else None

    def _class(self, name: str, imported: Collection[type] = ()) -> Any:
        family: Family = self.root.family_registry
        if family.has(name, self.root):
            try:
                return family.lookup(name, imported, self.root)
            except UsageError as error:
                raise ValidationError(f"must be {self.describe()}: {error}", right_kind=True) from None
        message = f"must be {self.describe()}: there is none named {name!r}."
        raise ValidationError(message, hint=lambda: self._hint_for(name), right_kind=True)

    def _hint_for(self, name: str) -> str:
        """The hint for a name that no member has. Imports all members, which say what they are called elsewhere."""
        family: Family = self.root.family_registry
        hint = family.suggest(name, [n for n in family.names() if family.has(n, self.root)])
        is_none = name.lower() in ("none", "null", "nil")
        return hint or (" Write none, or leave the field out." if is_none else "")

    def read(self, value: Value, report: Report) -> Any:
        if isinstance(value, Body):
            return self._from_type_field(value, report)
        if isinstance(value, TypedBlock):
            fields: tuple[Field, ...] | None = value.fields
            word, span = value.word, value.word_span or value.span
        elif is_word_or_string(value):
            fields, word, span = None, str(value.text if isinstance(value, Word) else value.value), value.span
        else:
            return self.convert(to_python_value(value))
        return self._build(word, fields, report, span)

    def _build(self, word: str, fields: tuple[Field, ...] | None, report: Report, span: Any) -> Any:
        """The member of this name; without fields (None) the one that the name alone stands for."""
        adopted = self._adopted(word)
        if adopted is not None:
            return self.root.coerce(adopted._build(word, fields, report, span))
        try:
            cls = self._class(word, report.imported_classes)
        except ValidationError as wrong:
            wrong.span = span
            if fields and not wrong.hint and len(self.root.member_names()) <= MAX_LISTED_MEMBERS:
                wrong.hint = f" There are {', '.join(self.root.members())}."
            raise
        if fields is None and not any(spec.required for spec in cls.specs().values()):
            return cls.from_name(word)
        block = cls.from_fields(fields or (), report, span)
        if block is None:
            raise ReportedError
        return block

    def _from_type_field(self, value: Body, report: Report) -> Any:
        """``{ type: name ... }``, and ``{ Name { ... } }``."""
        types = [f for f in value.fields if f.name == "type" and is_word_or_string(f.value)]
        if len(types) == 1:
            word = str(to_python_value(types[0].value))
            rest = tuple(f for f in value.fields if f.name != "type")
            return self._build(word, rest or None, report, types[0].value.span)
        if len(value.fields) == 1 and isinstance(value.fields[0].value, Body):
            only = value.fields[0]
            return self._build(only.name, only.value.fields, report, only.name_span)
        raise ValidationError(hint=" Write its name before the brace: Name { ... }.")

    def write(self, value: Any) -> Value:
        fields = value.to_fields()
        if not fields:
            return Word(value.name_in_text(as_word=True))
        return TypedBlock(value.name_in_text(), Body(tuple(fields)))


@dataclass(frozen=True)
class FamilyMemberList(FieldType):
    """A list of members of a family. A text may also give ``{ Name { ... }  Name { ... } }``, in its order."""

    member: FamilyMember
    repeatable = True

    def describe(self) -> str:
        return f"a list of {self.member.root.family_registry.name}s"

    def label(self) -> str:
        return f"list of {self.member.label()}s"

    def convert(self, value: Any) -> tuple[Any, ...]:
        return tuple(self.member.convert(v) for v in (value if isinstance(value, list | tuple) else (value,)))

    def read(self, value: Value, report: Report) -> tuple[Any, ...]:
        from_body = isinstance(value, Body) and not any(f.name == "type" for f in value.fields)
        items = to_typed_blocks(value.fields) if from_body else getattr(value, "items", (value,))
        members, has_errors = [], False
        for item in items:
            try:
                members.append(self.member.read(item, report))
            except ReportedError:
                has_errors = True
            except ValidationError as wrong:
                wrong.span = wrong.span or item.span
                raise
        if has_errors:
            raise ReportedError
        return tuple(members)

    def write(self, value: Any) -> Value:
        items = tuple(self.member.write(v) for v in value)
        return items[0] if len(items) == 1 else ListValue(items)


def to_typed_blocks(fields: Sequence[Field]) -> tuple[Value, ...]:
    """Fields ``Name { ... }`` as typed values; any other field's value as it is."""
    return tuple(
        TypedBlock(f.name, f.value, f.span, f.name_span) if isinstance(f.value, Body) else f.value for f in fields
    )


@dataclass(frozen=True)
class NestedBlock(FieldType):
    """A block of one known class."""

    block: Any

    def describe(self) -> str:
        return "a block { ... }"

    def label(self) -> str:
        name = vars(self.block).get("display_name")
        return f"{name} {{ }}" if name else str(self.block.__name__)

    def convert(self, value: Any) -> Any:
        if isinstance(value, self.block):
            return value
        if isinstance(value, dict):
            return self.block(**value)
        coerced = self.block.coerce(value)
        if coerced is not None:
            return coerced
        required = [text_name(name) for name, spec in self.block.specs().items() if spec.required]
        raise ValidationError(hint=f" Write {{ {required[0]}: ... }}." if required else "")

    def read(self, value: Value, report: Report) -> Any:
        if not isinstance(value, Body):
            return self.convert(to_python_value(value))
        block = self.block.from_fields(value.fields, report, value.span)
        if block is None:
            raise ReportedError
        return block

    def write(self, value: Any) -> Value:
        return Body(tuple(value.to_fields()))


@dataclass(frozen=True)
class NestedBlockList(ListOf):
    """Blocks of one known class, each in a field of its own: ``map { ... }  map { ... }``."""

    is_list_of_blocks = True
