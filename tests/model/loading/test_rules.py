"""Declared rules: files in the model language, dicts, wildcards; a rule that matches nothing is an error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from prototorch.errors import FileError, TextError, UsageError, WeightsError
from prototorch.model.load import model_from_text
from prototorch.model.rules_file import as_rules, format_rules


def _model(layers: int = 3):
    return model_from_text(
        'name: "net" input { name: "x" shape: [4] } '
        + "".join(f'Dense {{ name: "block{i}/dense"  units: 4 }}' for i in range(layers))
    )


def _file(tmp_path: Path, name: str, layers: int = 3) -> tuple[Path, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    state = {}
    for i in range(layers):
        state[name.format(i) + ".weight"] = rng.normal(size=(4, 4)).astype(np.float32)
        state[name.format(i) + ".bias"] = rng.normal(size=4).astype(np.float32)
    path = tmp_path / "w.safetensors"
    save_file(state, path, {"format": "pt"})
    return path, state


def _rules(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "rules.proto"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("layer{}.fc", 'rules { repeat i in $range(3) { map { from: "layer${i}.fc"  to: "block${i}/dense" } } }'),
        ("layer{}.fc", 'rules { map { from: "layer*.fc"  to: "block*/dense" } }'),
        ("net.l{}", 'rules { map { from: "**.l?"  to: "**/l?" } map { from: "x" to: "y" } }'),
        ("block{}.fc", 'rules { map { from: "block0.fc" to: "block0/dense" } map { from: "*.fc" to: "*/dense" } }'),
        ("module.layer{}.fc", 'rules { map { from: "layer*.fc"  to: "block*/dense" } }'),
        ("a.module.layer{}.fc", 'rules { strip: ["a.", "module."]  map { from: "layer*.fc"  to: "block*/dense" } }'),
    ],
)
def test_rules_of_a_file_map_layers(tmp_path: Path, name: str, text: str):
    path, state = _file(tmp_path, name)
    model = _model()
    if "**" in text:
        with pytest.raises(WeightsError, match=r'no name in the file is that of these rules: map \{ from: "x"'):
            model.load_weights(path, rules=_rules(tmp_path, text))
        return
    report = model.load_weights(path, rules=_rules(tmp_path, text))
    assert not report.unexpected
    for i in range(3):
        np.testing.assert_array_equal(model.weights[f"block{i}/dense/kernel"], state[name.format(i) + ".weight"].T)


def test_a_folder_is_renamed_with_all_that_is_below(tmp_path: Path):
    path, state = _file(tmp_path, "stage{}.dense")
    model = _model()
    model.load_weights(path, rules={f"stage{i}": f"block{i}" for i in range(3)})
    np.testing.assert_array_equal(model.weights["block2/dense/bias"], state["stage2.dense.bias"])


def test_rules_may_exchange_two_layers(tmp_path: Path):
    path, state = _file(tmp_path, "block{}.dense")
    model = _model()
    model.load_weights(path, rules={"block0": "block1", "block1": "block0"})
    np.testing.assert_array_equal(model.weights["block0/dense/kernel"], state["block1.dense.weight"].T)


def test_a_single_weight_is_mapped_to_a_weight_of_ours_with_its_layout(tmp_path: Path):
    text = 'name: "n" input { name: "x" shape: [6, 3] } SeparableConv1D { name: "s"  filters: 5  kernel_size: 2 }'
    rng = np.random.default_rng(0)
    state = {
        "dw.weight": rng.normal(size=(3, 1, 2)).astype(np.float32),
        "pw.weight": rng.normal(size=(5, 3, 1)).astype(np.float32),
        "pw.bias": rng.normal(size=5).astype(np.float32),
    }
    save_file(state, tmp_path / "w.safetensors", {"format": "pt"})
    model = model_from_text(text)
    rules = {"dw.weight": "s/depthwise_kernel", "pw.weight": "s/pointwise_kernel", "pw.bias": "s/bias"}
    model.load_weights(tmp_path / "w.safetensors", rules=rules)
    np.testing.assert_array_equal(model.weights["s/pointwise_kernel"], state["pw.weight"])


def test_ignored_arrays_are_not_unexpected(tmp_path: Path):
    path, _ = _file(tmp_path, "block{}.dense", layers=5)
    rules = _rules(tmp_path, 'rules { ignore: ["block3.**", "block4"] }')
    assert not _model().load_weights(path, rules=rules).unexpected


def test_a_rule_that_matches_nothing_is_an_error_but_for_by_name(tmp_path: Path):
    path, _ = _file(tmp_path, "block{}.dense")
    with pytest.raises(WeightsError, match=r'map \{ from: "blok"'):
        _model().load_weights(path, rules={"blok": "block0"})
    _model().load_weights(path, rules={"blok": "block0"}, by_name=True)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ({"a*": "b"}, "`to` must have the wildcards of `from`"),
        ({"a*.b**": "b**/c*"}, "in their order"),
        ({"**.a.**": "**/a/**"}, "more than one"),
        ({"a*b*": "a*b*"}, "more than one wildcard between"),
    ],
)
def test_wrong_wildcards_are_an_error(tmp_path: Path, pairs: dict[str, str], message: str):
    path, _ = _file(tmp_path, "block{}.dense")
    with pytest.raises(UsageError, match=message):
        _model().load_weights(path, rules=pairs)


def test_names_with_characters_of_regular_expressions_are_plain_names(tmp_path: Path):
    path, state = _file(tmp_path, r"b+(x)\1[{}]")
    model = _model()
    model.load_weights(path, rules={rf"b+(x)\1[{i}]": f"block{i}/dense" for i in range(3)})
    np.testing.assert_array_equal(model.weights["block1/dense/bias"], state[r"b+(x)\1[1].bias"])


def test_what_is_no_rules_file_is_an_error(tmp_path: Path):
    with pytest.raises(UsageError, match="a rules file has one block rules"):
        as_rules(_rules(tmp_path, 'name: "x"'))
    with pytest.raises(TextError, match="form"):
        as_rules(_rules(tmp_path, 'rules { map { form: "a"  to: "b" } }'))
    with pytest.raises(FileError, match="nowhere"):
        as_rules(tmp_path / "nowhere.proto")
    with pytest.raises(UsageError, match="expected the path of a rules file, a dict"):
        as_rules(3)


def test_rules_are_written_and_read_back(tmp_path: Path):
    pairs = {"layer1.0.conv1": "stage1/conv", 'odd"name\n': "b", "a${x}": "c"}
    rules = as_rules(_rules(tmp_path, format_rules(pairs)))
    assert rules is not None
    assert {rule.from_: rule.to for rule in rules.map} == pairs


@pytest.mark.parametrize("name", ["a*b", "a?b", "**"])
def test_names_that_rules_would_read_as_patterns_are_not_written(name):
    with pytest.raises(UsageError, match="would be a wildcard"):
        format_rules({"a.b": "c", name: "d"})
