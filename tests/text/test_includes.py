"""Include: another file's params and blocks, never from outside the main file's folder."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from prototorch.base.package_files import package_folder
from prototorch.errors import TextError
from prototorch.model.load import model_from_text
from prototorch.text.loader import load_document, load_text
from prototorch.text.reader import parse
from prototorch.text.syntax_tree import BlockDef, Body, to_python_value
from prototorch.text.writer import format_document


@pytest.fixture
def tree(tmp_path):
    """A folder with a main file; gives a function that writes files into it."""
    root = tmp_path / "models"
    root.mkdir()
    (tmp_path / "outside.proto").write_text("param secret: 1\n")

    def write(**files: str):
        for name, text in files.items():
            path = root / (name.replace("__", "/") + ".proto")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return root / "main.proto"

    return write


def mistakes(path) -> list[str]:
    with pytest.raises(TextError) as caught:
        load_document(path)
    return [f"{os.path.basename(m.span.path)}:{m.span.line}: {m.message}" for m in caught.value.mistakes]


def test_params_and_blocks_come_in(tree):
    path = tree(
        main='include "parts/blocks.proto"\ninput { shape: [4] }\nunit { n: $width }',
        parts__blocks='include "sizes.proto"\ninclude "../parts/sizes.proto"\nblock unit(n) { Dense { units: $n } }',
        parts__sizes="param width: 7",
    )
    dense = load_document(path).fields[-1]
    assert isinstance(dense.value, Body)
    assert dense.value.fields[1].value.value == 7
    assert load_document(path, {"width": 9}).fields[-1].value.fields[1].value.value == 9


def test_a_mistake_in_an_included_file_is_placed_there(tree):
    block = "block unit(n) {\n  Dense { units: $(1 // n) }\n}\n"
    path = tree(main='include "b.proto"\nunit { n: 0 }', b=block + "param x 3")
    assert mistakes(path) == [
        "b.proto:2: Division by zero: 1 // 0.",
        "b.proto:4: A parameter has a value: param x: ...",
    ]


@pytest.mark.parametrize(
    ("include", "message"),
    [
        ("../outside.proto", "An included file must be below the folder of the main file."),
        ("parts/../../outside.proto", "An included file must be below the folder of the main file."),
        ("/etc/hostname", "The path of an included file must be relative to the including file, not absolute."),
        ("C:/x.proto", "The path of an included file must be relative to the including file, not absolute."),
        ("none.proto", "'none.proto' cannot be included: No such file or directory."),
        ("parts", "'parts': the name of an included file must end in .proto."),
        ("link.proto", "'link.proto' cannot be included: it is a symbolic link."),
        ("inner.proto", "'inner.proto' cannot be included: it is a symbolic link."),
        ("linked/sizes.proto", "'linked/sizes.proto' cannot be included: Not a directory."),
        ("", "'' is not a path of a file ('/' separates folders)."),
        (".", "'.' is not a file."),
        ("a\\\\b.proto", "'a\\\\b.proto' is not a path of a file ('/' separates folders)."),
        ("pipe.proto", "'pipe.proto' cannot be included: it is not a file."),
    ],
)
def test_refused(tree, include, message):
    path = tree(main=f'include "{include}"', parts__sizes="param width: 7")
    root = path.parent
    (root / "link.proto").symlink_to(root.parent / "outside.proto")
    (root / "inner.proto").symlink_to(root / "parts" / "sizes.proto")
    (root / "linked").symlink_to(root / "parts")
    os.mkfifo(root / "pipe.proto")
    assert mistakes(path) == [f"main.proto:1: {message}"]


def test_circles(tree):
    path = tree(main='include "a.proto"', a='include "b.proto"', b='include "a.proto"')
    assert mistakes(path) == ["b.proto:1: These files include each other in a circle: a.proto -> b.proto -> a.proto."]
    path = tree(main='include "main.proto"\nparam x: 1')
    assert mistakes(path)[0].startswith("main.proto:1: These files include each other in a circle")


def test_a_long_row(tree):
    files = {f"f{i}": f'include "f{i + 1}.proto"' for i in range(20)}
    assert mistakes(tree(main='include "f0.proto"', **files)) == [
        "f15.proto:1: More than 16 files include each other in a row."
    ]


def test_only_params_and_blocks(tree):
    path = tree(main='include "a.proto"', a="Dense { units: 3 }")
    assert mistakes(path) == ["a.proto:1: An included file holds only param, let, assert, block and include."]


def test_bytes_are_counted_together(tree):
    path = tree(main='include "a.proto"\ninclude "b.proto"', a="#" + "x" * 9_000_000, b="#" + "x" * 9_000_000)
    assert mistakes(path) == ["main.proto:2: The text and all it includes have more than 16777216 bytes (16 MiB)."]


def test_bytes_that_are_no_text(tree):
    path = tree(main='include "a.proto"')
    (path.parent / "a.proto").write_bytes(b"\xff")
    with pytest.raises(TextError, match=r"a\.proto:1:1: the byte 0xff is not UTF-8"):
        load_document(path)


def test_a_text_without_a_folder_includes_nothing():
    with pytest.raises(TextError, match="A text that is not a file cannot include one"):
        load_text('include "a.proto"')


def test_includes_stand_at_the_top_level(tree):
    path = tree(main='repeat 2 { include "a.proto" }', a="param x: 1")
    assert mistakes(path) == ["main.proto:1: An include must be at the top level of a file."]


def layers(path, **params) -> list[str]:
    fields = [f for f in load_document(path, params).fields if f.name[:1].isupper()]
    return [to_python_value(next(g.value for g in f.value.fields if g.name == "name")) for f in fields]


PARTS = """param width: 3
let twice: $(2 * width)
block part(n) { Dense { units: $(n * twice) } }
block pair(n, last: $width) { part { n: $n }  part { n: $last } }
"""


def test_only_what_is_picked_comes_in(tree):
    path = tree(main='include pair from "a.proto"\ninput { shape: [4] }\npair { n: 2 }', a=PARTS)
    document = load_document(path)
    units = [to_python_value(g.value) for f in document.fields[1:] for g in f.value.fields if g.name == "units"]
    assert units == [12, 18]
    assert layers(path) == ["pair_1/part_1/dense_1", "pair_1/part_2/dense_1"]
    path.write_text('include pair from "a.proto"\nparam n: $width\npart { n: 1 }')
    assert mistakes(path) == ["main.proto:2: There is no value named 'width'. No param is defined before it."]
    with pytest.raises(TextError, match="The text has no param 'width'"):
        load_document(tree(main='include pair from "a.proto"\npair { n: 1 }'), {"width": 5})


def test_what_is_not_picked_may_be_defined(tree):
    main = """include pair from "a.proto"
param width: 100
block part(n) { Flatten { } }
input { shape: [4] }
part { n: 1 }
pair { n: 1 }
"""
    path = tree(main=main, a=PARTS)
    assert layers(path) == ["part_1/flatten_1", "pair_1/part_1/dense_1", "pair_1/part_2/dense_1"]
    assert "units: 6" in format_document(load_document(path, {"width": 7}))


def test_a_picked_param_may_be_set(tree):
    path = tree(main='include part from "a.proto"\ninclude width, twice from "a.proto"\npart { n: $twice }', a=PARTS)
    assert "units: 36" in format_document(load_document(path))
    assert "units: 100" in format_document(load_document(path, {"width": 5}))
    with pytest.raises(TextError, match="'twice' is computed by 'let' and cannot be set"):
        load_document(path, {"twice": 5})


def test_layers_that_a_picked_block_takes_are_those_of_the_text(tree):
    parts = """block inner() { Flatten { } }
block around(body, norm: inner) { inner  body  norm }
"""
    main = """include around from "a.proto"
block inner() { Dense { units: 2 } }
input { shape: [4] }
around { inner }
around(norm: inner) { ReLU }
"""
    path = tree(main=main, a=parts)
    assert layers(path) == [
        "around_1/inner_1/flatten_1", "around_1/body_1/inner_1/dense_1", "around_1/inner_2/flatten_1",
        "around_2/inner_1/flatten_1", "around_2/body_1/relu_1", "around_2/inner_2/dense_1",
    ]  # fmt: skip


def test_files_that_pick_from_each_other(tree):
    path = tree(
        main='include a from "a.proto"\ninclude b from "b.proto"\ninput { shape: [4] }\na { }\nb { }',
        a='include helper from "b.proto"\nblock a() { helper { } }',
        b="block helper() { Dense { units: 3 } }\nblock b() { helper { } }",
    )
    assert layers(path) == ["a_1/helper_1/dense_1", "b_1/helper_1/dense_1"]
    path = tree(
        main='include a from "a.proto"',
        a='include b from "b.proto"\nblock a() { }',
        b='include a from "a.proto"\nblock b() { }',
    )
    circle = "a.proto -> b.proto -> a.proto"
    assert mistakes(path)[0] == f"b.proto:1: These files include each other in a circle: {circle}."


@pytest.mark.parametrize(
    ("main", "message"),
    [
        ('include unti from "a.proto"', "a.proto has no block or param 'unti'. Did you mean 'unit'?"),
        ('include zebra from "a.proto"', "a.proto has no block or param 'zebra'. It has unit, size."),
        (
            'block unit() { }\ninclude unit from "a.proto"',
            "The block 'unit' is defined twice (first at {main}:1:1).",
        ),
        (
            'param size: 3\ninclude size from "a.proto"',
            "The value 'size' is defined twice (first at {main}:1:1).",
        ),
        ('include unit from "b.proto"', "'b.proto' cannot be included: No such file or directory."),
        ("include unit from a.proto", 'The file of an include is written in quotes: include "a.proto".'),
        ("include unit from", 'The text ends too early, after \'from\'.'),
        ("include unit, from \"a.proto\"", "Expected a name after ',', got 'from'."),
        ("include unit size from \"a.proto\"", "A ',' is missing before 'size'."),
    ],
)  # fmt: skip
def test_mistakes_in_picks(tree, main, message):
    path = tree(main=main, a="param size: 1\nblock unit() { Flatten { } }")
    found = mistakes(path)
    assert [text.partition(": ")[2] for text in found] == [message.replace("{main}", str(path))]


def test_blocks_of_the_package_are_found():
    text = """include conv_bn, bottleneck from "prototorch/blocks/resnet.proto"
input { shape: [3, 16, 16] }
conv_bn { filters: 8 }
bottleneck { width: 2 }
"""
    assert "bottleneck_1/conv3/conv" in format_document(load_text(text))
    with pytest.raises(TextError, match="those of the package it can"):
        load_text('include "blocks/resnet.proto"')


def test_a_file_of_that_path_beside_the_text_comes_first(tree):
    path = tree(
        main='include "prototorch/blocks/unet.proto"\ninput { shape: [4] }\nown { }',
        prototorch__blocks__unet="block own() { Dense { units: 1 } }",
    )
    assert layers(path) == ["own_1/dense_1"]


@pytest.mark.parametrize("path", ["prototorch/blocks/../../secret.proto", "prototorch/blocks/none.proto"])
def test_nothing_else_of_the_package_is_found(path):
    with pytest.raises(TextError) as caught:
        load_text(f'include "{path}"')
    (mistake,) = caught.value.mistakes
    assert "must be below the folder" in mistake.message or "No such file" in mistake.message
    assert str(package_folder("models")) not in str(mistake)


@pytest.mark.parametrize("path", sorted((package_folder("models") / "blocks").glob("*.proto")), ids=lambda p: p.stem)
def test_each_file_of_blocks_is_whole(path):
    """Each of its blocks is defined from what it includes itself."""
    document = parse(path.read_text(encoding="utf-8"))
    blocks = [s.name for s in document.statements if isinstance(s, BlockDef)]
    picked = load_text(f'include {", ".join(blocks)} from "prototorch/blocks/{path.name}"')
    assert sorted(picked.blocks) == sorted(blocks)


def test_a_u_net_of_shipped_blocks():
    text = """include double_conv, up from "prototorch/blocks/unet.proto"
input "image" { shape: [1, 32, 32] }
a = double_conv(8)
MaxPooling2D(2)
b = double_conv(16)
MaxPooling2D(2)
c = double_conv(32)
d = up(c, b, filters: 16)
up(d, a, filters: 8)
Conv2D(2, 1)
"""

    def double(c, f):
        convs = (torch.nn.Conv2d(c, f, 3, bias=False), torch.nn.Conv2d(f, f, 3, bias=False))
        return [*convs, torch.nn.BatchNorm2d(f), torch.nn.BatchNorm2d(f)]

    def up(c, skip, f):
        return [torch.nn.ConvTranspose2d(c, f, 2), *double(f + skip, f)]

    net = torch.nn.ModuleList(
        [*double(1, 8), *double(8, 16), *double(16, 32), *up(32, 16, 16), *up(16, 8, 8), torch.nn.Conv2d(8, 2, 1)]
    )
    model = model_from_text(text)
    counters = sum(isinstance(m, torch.nn.BatchNorm2d) for m in net)  # one element each, which we do not have
    assert model.count_params() == sum(v.numel() for v in net.state_dict().values()) - counters
    assert model.predict(np.zeros((1, 1, 32, 32), np.float32)).shape == (1, 2, 32, 32)
