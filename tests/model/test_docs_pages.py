"""The manual: a page for everything that is declared, with types, limits, defaults and examples that are right."""

from __future__ import annotations

import json

import pytest

from prototorch.cli.json_output import to_plain_types
from prototorch.errors import UsageError
from prototorch.model.docs_pages import PAGE_WIDTH, find_page, list_families
from prototorch.model.load import model_from_text
from prototorch.text.diagnostics import Report
from prototorch.text.reader import parse
from prototorch.train.config import Compile, Fit

NAMES = sorted({cls.__name__ for classes in list_families().values() for cls in classes})
BLOCKS = ("compile", "fit", "data", "loss", "metrics")
HEAD = 'input { name: "image"  shape: [4] }\nDense { name: "score"  units: 3 }\n'


@pytest.mark.parametrize("name", [*NAMES, *BLOCKS])
def test_every_page_is_made(name):
    made = find_page(name)
    text = str(made)
    examples = {f"{indent}{line}" for e in made.block.examples for line in e.text.splitlines() for indent in ("", "  ")}
    assert all(len(line) <= max(120, PAGE_WIDTH) for line in text.splitlines() if line not in examples)
    assert json.loads(json.dumps(to_plain_types(made.as_dict())))["name"]
    for said in made.fields():
        assert "<" not in said["default"], said
        assert "object at" not in said["default"] + said["type"]
    for shown in made.block.examples:
        parse(shown.text, name)


@pytest.mark.parametrize("name", NAMES)
def test_every_default_on_a_page_may_be_written(name):
    """The default that a page shows, written into a text, is the default."""
    made = find_page(name)
    needed = [f["name"] for f in made.fields() if f["default"] == "required"]
    if needed or made.family != "layers" or name in ("Bidirectional", "TimeDistributed", "TokenizerFile"):
        return
    for said in made.fields():
        if said["default"] not in ("none", "[]", ""):
            value = json.dumps(said["default"]) if said["type"] == "string" else said["default"]
            fields = parse(f"{said['name']}: {value}", name).fields
            assert made.block.from_fields(fields, Report()) == made.block(), (name, said)


PARTS = [*Compile.examples, *find_page("loss").block.examples, *find_page("metrics").block.examples]


@pytest.mark.parametrize("example", [e.text for e in PARTS])
def test_compile_examples_are_valid(example):
    loss = "" if "loss" in example else "loss: mse "
    text = example if example.startswith("compile") else f"compile {{ {loss}{example} }}"
    assert model_from_text(HEAD + text).compile_block is not None


@pytest.mark.parametrize("example", [e.text for e in Fit.examples])
def test_fit_examples_are_valid(example):
    assert model_from_text(HEAD + example).fit_block.data is not None


def test_pages_show_limits_names_and_what_a_field_takes():
    text = str(find_page("conv2d"))
    assert "filters" in text
    assert "int >= 1, required" in text
    assert "activation, default linear" in text
    assert "Also written: conv2d" in text
    assert str(find_page("fit")).startswith("fit { }")
    assert "data { } | none, default none" in str(find_page("fit"))
    assert "accuracy" in str(find_page("accuracy"))
    with pytest.raises(UsageError, match="Did you mean 'Conv2D'"):
        find_page("Conv2E")
