"""The language as data for editors: complete, and true of the classes that it describes."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from prototorch.cli.json_output import to_plain_types
from prototorch.cli.main import group
from prototorch.layers import Conv2D
from prototorch.model.docs_pages import list_families, list_sections
from prototorch.model.editor_schema import language_schema, textmate_grammar
from prototorch.schema.types import Choice, Optional, text_name
from prototorch.text.evaluator import Evaluator
from prototorch.text.keywords import KEYWORDS, LAYER_WORDS, TOP_LEVEL
from prototorch.text.name_resolution import TOP_LEVEL_FIELDS
from prototorch.text.operands import EvaluationError
from prototorch.text.reader import keywords, parse, parse_value
from prototorch.text.writer import format_document

SCHEMA = json.loads(json.dumps(to_plain_types(language_schema())))
CLASSES = [(family, cls) for family, members in list_families().items() for cls in members]


def test_the_keywords_are_those_of_the_grammar():
    assert sorted(SCHEMA["keywords"]) == sorted(keywords())
    assert sorted(SCHEMA["top_level"]) == sorted(TOP_LEVEL_FIELDS)


@pytest.mark.parametrize("word", [*KEYWORDS, *TOP_LEVEL, *LAYER_WORDS])
def test_each_form_is_a_text(word):
    form = {**KEYWORDS, **TOP_LEVEL, **LAYER_WORDS}[word].form
    text = form if not form.startswith("$") else f"x: {form}"
    assert re.search(rf"\b{word}\b", form)
    assert parse(format_document(parse(text))) == parse(text)
    if word in KEYWORDS:
        assert KEYWORDS[word].is_statement == (form.split()[0] == word)


def test_the_functions_are_those_that_are_evaluated():
    for name in SCHEMA["functions"]:
        with pytest.raises(EvaluationError, match="it takes"):
            Evaluator({}, lambda steps: None).value(parse_value(f'${name}("a", "b", "c", "d")').root)


@pytest.mark.parametrize(("family", "cls"), CLASSES, ids=[cls.__name__ for _, cls in CLASSES])
def test_a_class_is_described(family, cls):
    described = SCHEMA["families"][family][cls.__name__]
    fields = {f["name"]: f for f in described["fields"]}
    assert list(fields) == [text_name(name) for name in cls.specs()]
    assert set(described["positional"]) <= {*fields, *cls.neutral_arguments}
    for name, spec in cls.specs().items():
        field = fields[text_name(name)]
        assert field["required"] == spec.required
        kind = spec.type.inner if isinstance(spec.type, Optional) else spec.type
        if isinstance(kind, Choice):
            assert {c for c in kind.choices if isinstance(c, str)} <= set(field["words"])
        assert set(field["classes"]) <= set(SCHEMA["classes"])
        assert set(field["blocks"]) <= set(SCHEMA["blocks"])


@pytest.mark.parametrize("name", list_sections())
def test_a_section_is_described(name):
    assert SCHEMA["sections"][name]["doc"]
    assert SCHEMA["sections"][name]["takes_name"] == ("name" in list_sections()[name].specs())


def test_the_order_of_values_is_that_of_calls():
    conv = SCHEMA["families"]["layers"]["Conv2D"]
    assert conv["positional"][:3] == ["filters", "kernel_size", "strides"]
    assert Conv2D(8, 3, 2) == Conv2D(**dict(zip(conv["positional"], (8, 3, 2), strict=False)))
    assert SCHEMA["families"]["layers"]["Add"]["positional"] == []
    assert SCHEMA["families"]["layers"]["Add"]["takes_branches"]
    padding = next(f for f in conv["fields"] if f["name"] == "padding")
    assert padding["words"] == ["valid", "same"]


def test_the_classes_of_a_field_are_listed():
    assert SCHEMA["classes"]["Optimizer"]["family"] == "optimizers"
    assert {"Adam", "SGD"} <= set(SCHEMA["classes"]["Optimizer"]["members"])
    assert set(SCHEMA["classes"]["Optimizer"]["members"]) == set(SCHEMA["families"]["optimizers"])
    assert SCHEMA["classes"]["ActivationLayer"]["family"] == "layers"
    assert {f["name"] for f in SCHEMA["blocks"]["OutputLoss"]["fields"]} >= {"type", "output", "weight"}


def kinds(line: str) -> dict[str, str]:
    """The words of a line with the names that the grammar gives them: at each place the first pattern that matches."""
    patterns = [(p.get("name", ""), p.get("match") or p["begin"]) for p in textmate_grammar()["patterns"]]
    at, words = 0, {}
    while at < len(line):
        searches = ((re.compile(p).search(line, at), number, name) for number, (name, p) in enumerate(patterns))
        matches = [(m.start(), number, name, m) for m, number, name in searches if m]
        if not matches:
            break
        _, _, name, match = min(matches, key=lambda row: row[:2])
        words[match.group()] = name.removesuffix(".prototorch")
        at = max(match.end(), at + 1)
    return words


def test_the_colours_of_words():
    assert kinds("repeat i in $range(4) { Conv2D(64, padding: same) }  # four") == {
        "repeat": "keyword.control",
        "in": "keyword.control",
        "$range": "variable.other",
        "4": "constant.numeric",
        "Conv2D": "entity.name.type",
        "64": "constant.numeric",
        "padding": "entity.other.attribute-name",
        "# four": "comment.line.number-sign",
    }
    assert kinds("let half: sqrt(dim) == true")["sqrt"] == "support.function"
    assert kinds("let half: sqrt(dim) == true")["true"] == "constant.language"
    assert kinds("for: 3") == {"for": "entity.other.attribute-name", "3": "constant.numeric"}
    json.dumps(textmate_grammar())


@pytest.mark.parametrize(("what", "key"), [("schema", "keywords"), ("textmate", "scopeName")])
def test_the_command_prints_them(what, key):
    result = CliRunner().invoke(group, ["layers", "--editor", what])
    assert result.exit_code == 0, result.output
    assert key in json.loads(result.output)
    assert CliRunner().invoke(group, ["layers", "Conv2D", "--editor", what]).exit_code == 2
