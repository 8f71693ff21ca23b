"""Fields that hold blocks of one class, and fields named by keywords of Python."""

from __future__ import annotations

import pytest

from prototorch.errors import TextError, UsageError
from prototorch.schema import Block, field
from prototorch.text.diagnostics import Report
from prototorch.text.loader import load_text
from prototorch.text.syntax_tree import Body


class Route(Block):
    """From one place to another."""

    from_: str = field(doc="The start.")
    to: str = field("home", doc="The end.")


class Journey(Block):
    """Several routes."""

    route: list[Route] = field([], doc="The routes.")
    except_: list[str] = field([], doc="Places that are left out.")


def _read(text: str) -> Journey:
    report = Report()
    body = load_text(f"fit {{ {text} }}", report=report).fields[0].value
    assert isinstance(body, Body)
    journey = Journey.from_fields(body.fields, report)
    report.raise_if_any()
    assert journey is not None
    return journey


def test_a_field_given_several_times_holds_a_block_each():
    journey = _read('repeat i in $range(2) { route { from: "a${i}" } } route { from: "b"  to: "c" } except: "d"')
    assert [(r.from_, r.to) for r in journey.route] == [("a0", "home"), ("a1", "home"), ("b", "c")]
    assert journey.except_ == ("d",)


@pytest.mark.parametrize("text", ['route { from: "a" }', 'route: [{ from: "a" }, { from: "b" }]', 'except: ["x", "y"]'])
def test_it_reads_back_what_it_writes(text: str):
    journey = _read(text)
    assert Journey.from_fields(journey.to_fields(), Report()) == journey
    assert not any(f.name.endswith("_") for f in journey.to_fields())


def test_a_keyword_is_written_with_an_underscore_in_python():
    assert Journey(route=[{"from_": "a"}], except_="d") == _read('route { from: "a" }  except: "d"')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("route { }", "needs 'from'"),
        ('route { from: "a" }  route { to: "b" }', "needs 'from'"),
        ('route { fron: "a" }', "Did you mean 'from'?"),
        ("except: 3", "Journey.except must be"),
        ('route { from: "a"  from: "b" }', "Route.from is given twice"),
    ],
)
def test_mistakes_name_the_field_as_the_text_does(text: str, message: str):
    with pytest.raises(TextError, match=message.replace(".", r"\.").replace("?", r"\?")):
        _read(text)


def test_from_python_a_missing_field_is_an_error():
    with pytest.raises(UsageError, match="from_"):
        Journey(route=[Route()])
