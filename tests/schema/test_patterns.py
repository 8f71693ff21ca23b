"""Patterns of names."""

import pytest

from prototorch.errors import UsageError
from prototorch.schema.patterns import check_matches, matches, matches_weight


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
        ("conv?", "conv1", True),
        ("conv?", "conv/", False),
        ("conv[1-3]", "conv2", True),
        ("conv[!1-3]", "conv2", False),
        ("conv[!1-3]", "conv4", True),
        ("a.b", "axb", False),
        ("a+b", "aab", False),
        ("[", "[", True),
        ("**", "a/b", True),
    ],
)
def test_matches(pattern, name, expected):
    assert matches(pattern, name) is expected


def test_a_weight_is_matched_by_its_layer_or_its_own_name():
    assert matches_weight("logits", "logits/kernel")
    assert matches_weight("logits/*", "logits/kernel")
    assert not matches_weight("logits/bias", "logits/kernel")


def test_a_pattern_without_a_match_is_an_error_that_suggests_one():
    with pytest.raises(UsageError, match=r"'logit' matches no layer\. Did you mean 'logits'\?"):
        check_matches("logit", ["conv1", "logits"], "layer")


@pytest.mark.parametrize("pattern", ["*" * 17, "x" * 100_000, "[z-a]"])
def test_an_invalid_pattern_is_refused(pattern):
    with pytest.raises(UsageError, match="pattern"):
        matches(pattern, "x")
