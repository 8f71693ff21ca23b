"""Patterns of names."""

import random
import re
import time

import pytest

from prototorch.errors import UsageError
from prototorch.schema.patterns import check_matches, check_patterns, includes, matches, matches_below


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("conv1", "conv1", True),
        ("conv1", "conv10", False),
        ("conv*", "conv10", True),
        ("conv*", "conv1/kernel", False),
        ("stage1/**", "stage1/conv/kernel", True),
        ("stage1/**", "stage10/conv", False),
        ("**/kernel", "a/b/kernel", True),
        ("**/kernel", "kernel", True),
        ("**/kernel", "a/my_kernel", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**/b", "a/xb", False),
        ("a**/b", "ax/y/b", True),
        ("conv?", "conv1", True),
        ("conv?", "conv/", False),
        ("conv[1-3]", "conv2", True),
        ("conv[!1-3]", "conv2", False),
        ("conv[!1-3]", "conv4", True),
        ("a[!b]c", "a/c", False),
        ("[a-]", "-", True),
        ("a.b", "axb", False),
        ("a+b", "aab", False),
        ("[", "[", True),
        ("**", "a/b", True),
        ("*", "", True),
        ("größe_*", "größe_1", True),
    ],
)
def test_matches(pattern, name, expected):
    assert matches(pattern, name) is expected


def test_a_pattern_matches_as_the_regular_expression_of_the_same_meaning():
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]", "[ab]": "[ab]", "[!a]": "[^/a]"}
    tokens = [*parts, "a", "b", "/", "a", "b"]
    rng = random.Random(0)
    for _ in range(4000):
        chosen = [rng.choice(tokens) for _ in range(rng.randint(1, 6))]
        pattern, expression, before = "", "", "/"
        for token in chosen:
            if token == "**/" and before != "/":
                token = "b"
            if token[0] in "*/" and before == "*":
                continue
            pattern, expression, before = pattern + token, expression + parts.get(token, token), token[-1]
        name = "".join(rng.choice("ab/") for _ in range(rng.randint(0, 7)))
        assert matches(pattern, name) == bool(re.fullmatch(expression, name)), (pattern, name)


def test_a_folder_that_matches_matches_all_that_is_in_it():
    assert matches_below("logits", "logits/kernel")
    assert matches_below("conv*", "conv1/conv2d_1/kernel")
    assert matches_below("logits/*", "logits/kernel")
    assert not matches_below("logits/bias", "logits/kernel")
    assert not matches_below("log", "logits/kernel")


@pytest.mark.parametrize(
    ("patterns", "name", "expected"),
    [
        ([], "a", False),
        (["**", "!logits"], "logits/kernel", False),
        (["**", "!logits"], "conv/kernel", True),
        (["**", "!stage4/**", "stage4/bn"], "stage4/bn/gamma", True),
        (["**", "!**/bias"], "conv/bias", False),
    ],
)
def test_the_last_pattern_that_matches_decides(patterns, name, expected):
    assert includes(patterns, name) is expected


def test_a_pattern_without_a_match_is_an_error_that_suggests_one():
    with pytest.raises(UsageError, match=r"'logit' matches no layer\. Did you mean 'logits'\?"):
        check_matches("logit", ["conv1", "logits"], "layer")
    with pytest.raises(UsageError, match=r"'stage/\*\*' matches no layer\. Did you mean 'stage1'\?"):
        check_matches("stage/**", ["stage1/conv1", "head"], "layer")
    with pytest.raises(UsageError, match="'blok' matches no layer"):
        check_patterns(["**", "!blok"], ["block/a"], "layer")


def test_a_list_that_only_takes_out_is_an_error():
    with pytest.raises(UsageError, match=r"write \['\*\*', '!logits'\]"):
        check_patterns(["!logits"], ["logits", "conv"], "layer")


@pytest.mark.parametrize("pattern", ["", "x" * 100_000, "[z-a]", "[\x00-\uffff]"])
def test_an_invalid_pattern_is_refused(pattern):
    with pytest.raises(UsageError, match="pattern"):
        matches(pattern, "x")


def test_a_hostile_pattern_takes_no_time():
    start = time.process_time()
    for pattern in ("*a" * 500, "**a" * 300, "**/" * 300 + "x", "?*" * 500, "[ab]*" * 200):
        matches(pattern, "a" * 999 + "x")
        matches(pattern, "a/" * 499 + "x")
    assert time.process_time() - start < 2
