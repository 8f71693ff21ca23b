"""Settings from the command line."""

from __future__ import annotations

import pytest

from prototorch.errors import UsageError
from prototorch.text.loader import load_text
from prototorch.text.syntax_tree import Scalar, ShellWord, TypedBlock
from prototorch.text.writer import format_document

TEXT = """param classes: 10
Dense { name: "hidden"  units: 4 }
Add { branch { Dense { name: "in.branch"  units: 4 } } branch { } }
Dense { name: "logits"  units: $classes }
compile { loss: mse  optimizer: Adam { learning_rate: 0.1 } }
fit { epochs: 5  epochs: 6 }
"""


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        (["classes=3"], ['Dense { name: "logits"  units: 3 }']),
        (["fit.epochs=3"], ["fit { epochs: 3 }"]),
        (["fit.batch_size=3"], ["fit { epochs: 5  epochs: 6  batch_size: 3 }"]),
        (["compile.optimizer.learning_rate=1e-3"], ["optimizer: Adam { learning_rate: 1e-3 }"]),
        (["compile.optimizer=SGD { momentum: 0.9 }"], ["optimizer: SGD { momentum: 0.9 }"]),
        (["compile.loss.from_logits=true"], ["loss: mse { from_logits: true }"]),
        (["hidden.units=8"], ['Dense { name: "hidden"  units: 8 }']),
        (["hidden.activation=relu"], ['Dense { name: "hidden"  units: 4  activation: relu }']),
        (["in.branch.units=8"], ['branch { Dense { name: "in.branch"  units: 8 } }']),
        (["data.source=/some/path"], ['data { source: "/some/path" }']),
        (["fit.data.source=mnist"], ["fit { epochs: 5  epochs: 6  data { source: mnist } }"]),
        (["fit.callbacks=[EarlyStopping { patience: 3 }]"], ["callbacks: [EarlyStopping { patience: 3 }]"]),
        (["hidden.units=1", "hidden.units=2"], ['Dense { name: "hidden"  units: 2 }']),
    ],
)
def test_settings(settings, wanted):
    before, after = format_document(load_text(TEXT)), format_document(load_text(TEXT, settings=settings))
    assert [part for part in wanted if part in after and part not in before] == wanted


def test_values_keep_their_kind():
    document = load_text(TEXT, settings=["fit.a=word", "fit.b='3'", "fit.c=1 2", "fit.d=Adam { }", "fit.e="])
    found = {f.name: f.value for f in document.fields[-1].value.fields}
    assert isinstance(found["a"], ShellWord)
    assert found["b"] == Scalar("3")
    assert found["c"] == Scalar("1 2")
    assert isinstance(found["d"], TypedBlock)
    assert found["e"] == Scalar("")


@pytest.mark.parametrize("setting", ["classes", "=3", "a..b=3", ".a=3", "fit.epochs=$(1 + 2)"])
def test_what_is_no_setting(setting):
    with pytest.raises(UsageError, match="--set takes"):
        load_text(TEXT, settings=[setting])
