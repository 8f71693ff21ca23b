"""The manual: a page for everything that is declared, with types, limits, defaults and examples that are right."""

from __future__ import annotations

import json

import pytest

from prototorch.cli.options import plain
from prototorch.errors import UsageError
from prototorch.load import model_of
from prototorch.manual import WIDTH, families, page
from prototorch.text.mistakes import Report
from prototorch.text.reader import parse
from prototorch.train.declare import Compile, Fit

NAMES = sorted({cls.__name__ for classes in families().values() for cls in classes})
BLOCKS = ("compile", "fit", "data", "loss", "metrics")
HEAD = 'input { name: "image"  shape: [4] }\nDense { name: "score"  units: 3 }\n'


@pytest.mark.parametrize("name", [*NAMES, *BLOCKS])
def test_every_page_is_made(name):
    made = page(name)
    text = str(made)
    examples = {f"  {e.text}" for e in made.block.examples}
    assert all(len(line) <= max(120, WIDTH) for line in text.splitlines() if line not in examples)
    assert json.loads(json.dumps(plain(made.as_dict())))["name"]
    for said in made.fields():
        assert "<" not in said["default"], said
        assert "object at" not in said["default"] + said["type"]
    for shown in made.block.examples:
        parse(shown.text, name)


@pytest.mark.parametrize("name", NAMES)
def test_every_default_on_a_page_may_be_written(name):
    """The default that a page shows, written into a text, is the default."""
    made = page(name)
    needed = [f["name"] for f in made.fields() if f["default"] == "required"]
    if needed or made.family != "layers" or name in ("Bidirectional", "TimeDistributed"):
        return
    for said in made.fields():
        if said["default"] not in ("none", "[]", ""):
            value = json.dumps(said["default"]) if said["type"] == "string" else said["default"]
            fields = parse(f"{said['name']}: {value}", name).fields
            assert made.block.from_fields(fields, Report()) == made.block(), (name, said)


PARTS = [*Compile.examples, *page("loss").block.examples, *page("metrics").block.examples]


@pytest.mark.parametrize("example", [e.text for e in PARTS])
def test_compile_examples_are_valid(example):
    loss = "" if "loss" in example else "loss: mse "
    text = example if example.startswith("compile") else f"compile {{ {loss}{example} }}"
    assert model_of(HEAD + text).compile_block is not None


@pytest.mark.parametrize("example", [e.text for e in Fit.examples])
def test_fit_examples_are_valid(example):
    assert model_of(HEAD + example).fit_block.data is not None


def test_pages_show_limits_names_and_what_a_field_takes():
    text = str(page("conv2d"))
    assert "filters" in text
    assert "int >= 1, required" in text
    assert "activation, default linear" in text
    assert "Also written: conv2d" in text
    assert str(page("fit")).startswith("fit { }")
    assert "data { } | none, default none" in str(page("fit"))
    assert "accuracy" in str(page("accuracy"))
    with pytest.raises(UsageError, match="Did you mean 'Conv2D'"):
        page("Conv2E")
