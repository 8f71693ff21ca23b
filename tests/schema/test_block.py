"""Blocks from Python and from trees: the declaration checks, reads, writes."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Literal

import numpy as np
import pytest

from prototorch.errors import UsageError
from prototorch.schema import Block, Dims, Ints, Padding, example, field
from prototorch.text.diagnostics import Report
from prototorch.text.source import Source, Span
from prototorch.text.syntax_tree import Body, Field, ListValue, Scalar, TypedBlock, Word, to_value_node


class Filler(Block, family="filler"):
    """A family for these tests."""


class ZeroFill(Filler):
    pass


class HeFill(Filler):
    aliases = ("kaiming",)
    seed: int | None = None
    scale: float = field(1.0, above=0)


class Part(Block, family="part"):
    name: str | None = None


class Grid(Part):
    """A part with every kind of field."""

    size: tuple[int, ...] = field(type=Ints(2, min=1))
    count: int = field(3, min=1, doc="how many")
    padding: str = field("valid", type=Padding(2))
    mode: Literal["fast", "slow"] = "fast"
    rate: float = field(0.5, min=0, below=1)
    flag: bool = True
    filler: Filler = field("he_fill")
    other: Filler | None = None
    fillers: list[Filler] = field(())
    shape: tuple[int | None, ...] = field((1,), type=Dims())
    numbers: list[float] = field(())
    step: float | Filler = 0.1
    examples = [example("Grid { size: 2 }", inputs=[(3,)])]

    def check(self):
        if self.count == 13:
            self.refuse("count 13 brings bad luck", "count")


class Box(Block):
    parts: list[Part] = field((), children=True)
    title: str = "box"


def build(cls, *fields: Field):
    report = Report()
    made = cls.from_fields(fields, report)
    return made, [m.message for m in report.diagnostics]


def test_positional_keyword_defaults_and_inherited_last():
    grid = Grid(5, 2, name="g")
    assert (grid.size, grid.count, grid.name, grid.filler) == ((5, 5), 2, "g", HeFill())
    assert list(Grid.specs())[-1] == "name"
    assert Grid(np.int64(5), 2) == Grid((5, 5), count=2)
    assert hash(Grid(5)) == hash(Grid(5))
    assert Grid(5) != Grid(6)


def test_repr_is_the_call():
    grid = Grid(5, filler=HeFill(seed=3), mode="slow")
    assert repr(grid) == "Grid((5, 5), mode='slow', filler=HeFill(seed=3))"
    assert eval(repr(grid)) == grid


def test_frozen_and_replace():
    grid = Grid(5)
    with pytest.raises(AttributeError, match=r"use .replace\(count=...\)"):
        grid.count = 4
    assert grid.replace(count=4).count == 4
    assert copy.deepcopy(grid) == grid


NO_FIL = " must be a filler: there is none named 'he_fil'. Did you mean 'he_fill'?"


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({}, "Grid needs 'size' (an integer of at least 1, or a list of 2 of them)."),
        ({"size": 1, "cuont": 2}, "Grid has no field 'cuont'. Did you mean 'count'?"),
        ({"size": 1, "count": 0}, "Grid.count must be an integer of at least 1, not 0."),
        ({"size": 1, "count": True}, "Grid.count must be an integer of at least 1, not true."),
        ({"size": 1, "rate": 1}, "Grid.rate must be a number of at least 0 and below 1, not 1."),
        ({"size": 1, "rate": float("nan")}, "Grid.rate must be a number of at least 0 and below 1, not nan."),
        ({"size": 1, "mode": "fats"}, "Grid.mode must be 'fast' or 'slow', not \"fats\". Did you mean 'fast'?"),
        ({"size": 1, "filler": "he_fil"}, "Grid.filler" + NO_FIL),
        ({"size": 1, "filler": 3}, "Grid.filler must be a filler, not 3."),
        ({"size": (1, 2, 3)}, "Grid.size must be an integer of at least 1, or a list of 2 of them, not (1, 2, 3)."),
        ({"size": 1, "count": 13}, "Grid: count 13 brings bad luck"),
        ({"size": 1, "count": 2**70}, "Grid.count must fit in 64 bits."),
        ({"size": 1, "step": "he_fil"}, "Grid.step" + NO_FIL),
    ],
)
def test_python_mistakes(kwargs, message):
    with pytest.raises(UsageError) as caught:
        Grid(**kwargs)
    assert str(caught.value) == message


def test_too_many_and_twice():
    with pytest.raises(UsageError, match=r"takes at most 3 arguments by position \(a, b, c\), got 4"):
        Box3(1, 2, 3, 4)
    with pytest.raises(UsageError, match=r"Grid\.size is given twice"):
        Grid(5, size=3)


class Box3(Block):
    a: int = 1
    b: int = 1
    c: int = 1


def test_family():
    assert Filler.lookup("he_fill") is Filler.lookup("HeFill") is Filler.lookup("kaiming") is HeFill
    assert Filler.members() == {"HeFill": HeFill, "ZeroFill": ZeroFill}
    with pytest.raises(UsageError, match=r"There is no filler named 'kaimin'\. Did you mean 'kaiming'\?"):
        Filler.lookup("kaimin")
    with pytest.raises(UsageError, match="is the root of a family: use one of HeFill, ZeroFill"):
        Filler()


def test_from_fields_reads_every_kind():
    made, mistakes = build(
        Grid,
        Field("size", to_value_node([2, 3])),
        Field("padding", to_value_node([[1, 2], [0, 1]])),
        Field("mode", Word("slow")),
        Field("filler", TypedBlock("HeFill", Body((Field("seed", Scalar(1)),)))),
        Field("other", Word("none")),
        Field("fillers", ListValue((Word("zero_fill"), TypedBlock("he_fill", Body(()))))),
        Field("shape", ListValue((Word("none"), Scalar(4)))),
        Field("numbers", Scalar(1)),
        Field("numbers", Scalar(2.5)),
        Field("step", Word("zero_fill")),
    )
    assert mistakes == []
    assert made == Grid(
        (2, 3),
        padding=((1, 2), (0, 1)),
        mode="slow",
        filler=HeFill(1),
        fillers=[ZeroFill(), HeFill()],
        shape=(None, 4),
        numbers=[1, 2.5],
        step=ZeroFill(),
    )
    again, mistakes = build(Grid, *made.to_fields())
    assert mistakes == []
    assert again == made


def test_from_fields_reports_all_mistakes():
    made, mistakes = build(
        Grid,
        Field("sise", Scalar(2)),
        Field("count", Scalar("ten")),
        Field("mode", Word("fats")),
        Field("filler", TypedBlock("HeFill", Body((Field("sed", Scalar(1)), Field("scale", Scalar(0)))))),
        Field("flag", Word("yes")),
        Field("rate", Scalar(0.1)),
        Field("rate", Scalar(0.2)),
        Field("name", Word("g")),
        Field("fillers", ListValue((Word("zero_fil"),))),
    )
    assert made is None
    assert mistakes == [
        "Grid has no field 'sise'. Did you mean 'size'?",
        'Grid.count must be an integer of at least 1, not "ten".',
        "Grid.mode must be 'fast' or 'slow', not the word fats. Did you mean 'fast'?",
        "Grid.rate is given twice.",
        "Grid.flag must be true or false, not the word yes. Write true.",
        "HeFill has no field 'sed'. Did you mean 'seed'?",
        "HeFill.scale must be a number above 0, not 0.",
        "Grid.fillers must be a filler: there is none named 'zero_fil'. Did you mean 'zero_fill'?",
        'Grid.name must be a string or none, not the word g. Write it in quotes: "g".',
    ]


def test_children():
    made, mistakes = build(
        Box,
        Field("Grid", Body((Field("size", Scalar(2)),))),
        Field("title", Scalar("t")),
        Field("Grid", Body((Field("size", Scalar(3)),))),
    )
    assert mistakes == []
    assert made == Box([Grid(2), Grid(3)], "t")
    assert [f.name for f in made.to_fields()] == ["Grid", "Grid", "title"]


def test_a_local_class_sees_local_names():
    class Local(Block):
        inner: Box3 | None = None

    class Outer(Block):
        inner: Local = field(default=None)

    assert Outer(Local()).inner == Local()


def test_field_names_of_methods_are_refused():
    with pytest.raises(UsageError, match="a field cannot bear the name of a method"):
        type("Bad", (Block,), {"__annotations__": {"replace": int}})


def test_schema_does_not_import_lark():
    code = "import sys, prototorch.schema; sys.exit('lark' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_same_mistake_again_still_gives_no_instance():
    report = Report()
    source = Source("Grid { }", "m.proto")
    for _ in range(3):
        assert Grid.from_fields((), report, Span(source, 0, 4)) is None
    assert len(report) == 1
