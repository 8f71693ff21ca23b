"""Include: another file's params and blocks, never from outside the main file's folder."""

from __future__ import annotations

import os

import pytest

from prototorch.errors import TextError
from prototorch.text.loader import load_document, load_text
from prototorch.text.syntax_tree import Body


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
