"""The table of mistakes: what a person writes wrongly, and exactly what is said about it.

The rows are in mistakes.txt; here are those with odd characters, limits, params and settings.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from prototorch.errors import TextError
from prototorch.graph.net_reader import read_net
from prototorch.text import limits
from prototorch.text.diagnostics import Report, format_chain
from prototorch.text.loader import load_text


def _table() -> list[tuple[str, str, list[str]]]:
    """The rows of mistakes.txt: name, text, messages."""
    rows = []
    for part in (Path(__file__).parent / "mistakes.txt").read_text(encoding="utf-8").split("\n== ")[1:]:
        name, _, rest = part.partition("\n")
        lines = rest.rstrip("\n").split("\n")
        wanted = [line[3:] for line in lines if line.startswith("-> ")]
        rows.append((name, "\n".join(line for line in lines if not line.startswith("-> ")), wanted))
    return rows


TABLE = _table()
NET = "input { shape: [4] }\n"
EXAMPLE = "A model has an input and layers: input { shape: [4] }  Dense { units: 2 }"


def messages(text: str, root: str | None = None, **params: object) -> list[str]:
    """Every message about a text, without the lines it shows."""
    report = Report()
    read_net(load_text(text, "m.proto", params, report=report, root=root), report)
    try:
        report.raise_if_any()
    except TextError as error:
        return [
            f"{str(m.span)[len('m.proto:') :]}: {m.message}" + (f" ({format_chain(m.chain)})" if m.chain else "")
            for m in error.mistakes
        ]
    return []


@pytest.mark.parametrize(("text", "wanted"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_mistake(text, wanted, tmp_path):
    assert messages(text, str(tmp_path)) == wanted


def test_the_table_is_long_and_each_row_differs():
    assert len(TABLE) >= 100
    assert all(wanted for _, _, wanted in TABLE)
    assert len({row[0] for row in TABLE}) == len({row[1] for row in TABLE}) == len(TABLE)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (NET + "\rDense { units: 4 }", "2:1: A carriage return must be followed by a line feed."),
        (NET + "Dense { units: 4 }\0", "2:19: A NUL character is not allowed in a text. Is this a text file?"),
        (NET + "Dense { units: \ud800 }", "2:16: Half a character (a lone surrogate) is not allowed in a text."),
        (NET + "Dense {\x0c units: 4 }", "2:8: The character U+000C has no meaning here."),
        (NET + "Dense { units\u202e: 4 }", "2:14: The character U+202E has no meaning here."),
        ("", f"1:1: The text is empty. {EXAMPLE}"),
        ("# only a comment", f"1:1: The text is empty. {EXAMPLE}"),
    ],
    ids=["CR", "NUL", "surrogate", "form feed", "right-to-left", "empty", "comment"],
)
def test_odd_characters(text, wanted):
    assert messages(text) == [wanted]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a " + "{ b " * 120 + "{ }" + " }" * 120, "1:403: This is nested deeper than 100 levels."),
        (
            NET + "repeat 1000000000 { Dense { units: 4 } }",
            "2:8: A repeat of 1000000000 times is above the limit of 1,000,000 steps.",
        ),
        (
            NET + "repeat 1000 { repeat 1000 { Dense { units: 4 } } }",
            "2:1: This repeat takes at least 3,001,000 steps; the limit is 1,000,000.",
        ),
        (
            NET + "repeat 400 { repeat 400 { Dense { } } }",
            "2:27: The net has more than 100,000 layers. (in repeat at line 2, in repeat at line 2)",
        ),
        (
            NET + "repeat i in $range(1000000000) { Dense { units: 4 } }",
            "2:13: A list of 1000000000 values is above the limit of 100000.",
        ),
        (NET + f"Dense {{ units: {'9' * 2000} }}", "2:16: This number has 2000 characters; the limit is 1000."),
        ("x" * 2000 + ": 1", "1:1: This name has 2000 characters; the limit is 1000."),
        (
            'a: "' + "x" * limits.MAX_STRING_LENGTH + '"',
            "1:4: This string has 1048578 characters; the limit is 1048576.",
        ),
        ('a: "b" ' + '"x" ' * limits.MAX_STRING_LENGTH, "1:4: This string has more than 1048576 characters."),
        ("a: $(" + "1+" * 1000 + "1)", "1:6: This expression has more than 100 parts inside each other."),
    ],
    ids=lambda v: "" if len(v) > 100 else v,
)
def test_limit(text, wanted):
    assert messages(text)[0] == wanted


def test_a_message_shows_the_line_and_a_caret_under_the_mistake():
    report = Report()
    text = NET + 'Conv2D { name: "conv2"  filtres: 256  kernel_size: 5 }\n'
    read_net(load_text(text, "models/alexnet.proto", report=report), report)
    with pytest.raises(TextError) as caught:
        report.raise_if_any()
    assert str(caught.value) == (
        "models/alexnet.proto:2:25: Conv2D has no field 'filtres'. Did you mean 'filters'?\n"
        '   2 | Conv2D { name: "conv2"  filtres: 256  kernel_size: 5 }\n'
        "     |                         ^^^^^^^"
    )


def test_a_message_shows_the_chain_of_blocks():
    text = "block tower(n) {\n  Dense { units: $n }\n}\n" + NET + "repeat 2 {\n  tower { n: 0 }\n}\n"
    report = Report()
    read_net(load_text(text, "m.proto", report=report), report)
    assert [str(m) for m in report.diagnostics] == [
        "m.proto:2:18: Dense.units must be an integer of at least 1, not 0.\n"
        "   2 |   Dense { units: $n }\n"
        "     |                  ^^\n"
        "   in tower at line 6, in repeat at line 5"
    ]


def test_a_long_line_is_cut_around_the_mistake():
    report = Report()
    read_net(load_text(NET + "Dense { " + " " * 500 + "units: 0 }" + " " * 500, report=report), report)
    place, line, carets = str(report.diagnostics[0]).split("\n")
    assert place.startswith("<text>:2:516: ")
    assert len(line) < 130
    assert line.index("0 }") == carets.index("^")


def test_control_characters_are_not_shown():
    report = Report()
    load_text('a: "\x1b[31m\u202e" b }', report=report)
    assert "\x1b" not in str(report.diagnostics[0])
    assert "\u202e" not in str(report.diagnostics[0])


@pytest.mark.parametrize(
    ("params", "wanted"),
    [
        ({"clases": 10}, "The text has no param 'clases'. Did you mean 'classes'?"),
        ({"classes": "ten"}, "The param 'classes' is an integer (3), and was given \"ten\"."),
        ({"classes": 2.5}, "The param 'classes' is an integer (3), and was given 2.5."),
        ({"rate": "high"}, "The param 'rate' is a number (0.5), and was given \"high\"."),
        ({"sizes": 3}, "The param 'sizes' is a list ([1, 2]), and was given 3."),
    ],
)
def test_params_given_wrongly(params, wanted):
    text = "param classes: 3\nparam rate: 0.5\nparam sizes: [1, 2]\n" + NET + "Dense { units: $classes }"
    report = Report()
    load_text(text, params=params, report=report)
    assert [m.message for m in report.diagnostics] == [wanted]


@pytest.mark.parametrize(
    ("setting", "wanted"),
    [
        ("logit.units=3", "--set:1:1: There is no layer and no block named 'logit' to set. Did you mean 'logits'?"),
        ("logits.units.x=3", "--set:1:1: 'units' has no fields, so that 'x' cannot be set in it."),
        ("logits.units=many", "--set:1:14: Dense.units must be an integer of at least 1, not the word many."),
        ("logits.unit=3", "--set:1:1: Dense has no field 'unit'. Did you mean 'units'?"),
    ],
)
def test_settings_given_wrongly(setting, wanted):
    report = Report()
    read_net(load_text(NET + 'Dense { name: "logits"  units: 3 }', settings=[setting], report=report), report)
    assert [f"{m.span}: {m.message}" for m in report.diagnostics] == [wanted]
