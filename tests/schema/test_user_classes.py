"""Names of users' classes: any, in a program; in a text that uses a name it must mean one class."""

import itertools
from pathlib import Path

import numpy as np
import pytest

import prototorch as pt
from prototorch.engine.harness import temporary_definitions
from prototorch.errors import TextError, UsageError
from prototorch.layers.activation import ActivationLayer
from prototorch.model.load import model_from_text
from prototorch.schema import Block
from prototorch.schema.family import Family

HEAD = 'input { name: "x"  shape: [4] }\n'
MODULE = """
import prototorch as pt

class {name}(pt.layers.Layer):
    def call(self, ctx, x):
        return x * {factor}
"""
LOSS = """
import prototorch as pt

class Huber(pt.losses.Loss):
    def values(self, target, output):
        return output
"""
X = np.ones((2, 4), np.float32)
_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _definitions():
    with temporary_definitions():
        yield


def layer_class(name, factor=3.0, module="user_program"):
    def call(self, ctx, x):
        return x * factor

    return type(name, (pt.layers.Layer,), {"__module__": module, "call": call})


def write_module(folder: Path, name: str, factor: float) -> str:
    module = f"names_{next(_numbers)}"
    (folder / f"{module}.py").write_text(MODULE.format(name=name, factor=factor))
    return module


def load(folder: Path, text: str):
    path = folder / "net.proto"
    path.write_text(text)
    return pt.load_model(path, allow_python=True)


# ---------------------------------------------------------------------- in a program


@pytest.mark.parametrize("name", ["Scale", "Split", "PositionEmbedding", "Dense", "ReLU"])
def test_a_class_of_a_program_may_bear_the_name_of_a_layer_of_the_package(name):
    package = pt.layers.Layer.lookup(name)
    own = layer_class(name)
    assert pt.layers.Layer.lookup(name) is package
    model = pt.Sequential([pt.Input((4,)), own(), pt.layers.Dense(2)])
    assert model.predict(X).shape == (2, 2)
    assert own()(pt.tensor(X)).numpy().max() == 3


@pytest.mark.parametrize(
    ("root", "name"),
    [(pt.losses.Loss, "Huber"), (pt.metrics.Metric, "MeanSquaredError"), (pt.callbacks.Callback, "EarlyStopping")],
)
def test_so_may_a_class_of_any_family(root, name):
    package = root.lookup(name)
    own = type(name, (root,), {"__module__": "user_program"})
    assert root.lookup(name) is root.members()[name] is package
    assert own.type_name() == f"user_program.{name}"
    assert package.type_name() == name


def test_two_modules_of_a_program_may_have_a_class_of_one_name():
    first, second = layer_class("Blend", 2.0, "one"), layer_class("Blend", 5.0, "two")
    assert [cls()(pt.tensor(X)).numpy().max() for cls in (first, second)] == [2, 5]
    with pytest.raises(TextError, match=r"'Blend' may mean the layer one\.Blend or two\.Blend: give a class of"):
        model_from_text(HEAD + "Blend { }")


def test_a_class_that_is_defined_again_takes_the_place_of_the_old_one():
    layer_class("Blend", 2.0)
    again = layer_class("Blend", 5.0)
    assert pt.layers.Layer.lookup("blend") is again
    hidden = layer_class("Scale", 2.0), layer_class("Scale", 5.0)
    assert pt.layers.Layer.family_registry._namesakes["Scale"] == [hidden[1]]


def test_a_class_of_the_package_has_its_name_also_where_it_is_defined_after_a_users():
    class Shape(Block, family="shape"):
        pass

    table: Family = Shape.family_registry
    own = type("Round", (Shape,), {"__module__": "user_program"})
    assert table.lookup("round") is own
    package = type("Round", (Shape,), {"__module__": "prototorch.shapes"})
    assert table.lookup("round") is package
    assert table.lookup("round", imported={package}) is package
    with pytest.raises(UsageError, match=r"prototorch\.other\.Round cannot be called 'Round': the shape"):
        type("Round", (Shape,), {"__module__": "prototorch.other"})


# ---------------------------------------------------------------------- in texts


def test_a_text_without_an_import_means_the_layer_of_the_package():
    layer_class("Scale", 3.0)
    model = model_from_text(HEAD + "Scale { }")
    assert type(model.net.nodes[0].layer) is pt.layers.Scale


def test_a_name_that_may_mean_two_classes_is_a_mistake_that_names_both(tmp_path):
    module = write_module(tmp_path, "Scale", 3.0)
    with pytest.raises(TextError) as caught:
        load(tmp_path, f'import: "{module}"\n{HEAD}Dense {{ units: 2 }}\nscale {{ }}\n')
    assert str(caught.value).startswith(f"{tmp_path / 'net.proto'}:4:1: ")
    assert f"'scale' may mean the layer prototorch.layers.scale.Scale or {module}.Scale: give" in str(caught.value)
    model = model_from_text(HEAD + "Scale { }")  # another text, which imports nothing
    assert type(model.net.nodes[0].layer) is pt.layers.Scale


def test_a_module_with_such_a_class_may_be_imported_for_its_others(tmp_path):
    module = write_module(tmp_path, "Scale", 3.0)
    with (tmp_path / f"{module}.py").open("a") as file:
        file.write("\nclass Blend(Scale):\n    pass\n")
    model = load(tmp_path, f'import: "{module}"\n{HEAD}Blend {{ }}\n')
    assert model.predict(X).max() == 3


def test_the_class_that_a_text_imports_is_the_one_that_it_names(tmp_path):
    layer_class("Blend", 9.0)
    for factor in (2.0, 5.0):
        module = write_module(tmp_path, "Blend", factor)
        model = load(tmp_path, f'import: "{module}"\n{HEAD}Blend {{ }}\n')
        assert model.predict(X).max() == factor


def test_names_in_fields_are_resolved_in_the_same_way(tmp_path):
    module = f"names_{next(_numbers)}"
    (tmp_path / f"{module}.py").write_text(LOSS)
    with pytest.raises(
        TextError,
        match=rf"5:9: compile\.loss must be a loss: 'huber' may mean the loss prototorch\.\S+ or {module}\.Huber",
    ):
        load(tmp_path, f'import: "{module}"\n{HEAD}Dense {{ units: 1 }}\ncompile {{\n  loss: huber }}')


# ---------------------------------------------------------------------- written texts and files


def test_a_model_with_a_class_that_a_text_would_mistake_is_not_written(tmp_path):
    own = layer_class("Scale")
    model = pt.Sequential([pt.Input((4,)), own()])
    for write in (model.to_text, lambda: model.save(tmp_path / "m.h5")):
        with pytest.raises(UsageError, match=r"a text cannot name the layer user_program\.Scale: 'Scale' is also"):
            write()
    assert not (tmp_path / "m.h5").exists()
    package = pt.Sequential([pt.Input((4,)), pt.layers.Scale()])
    assert type(model_from_text(package.to_text()).net.nodes[0].layer) is pt.layers.Scale


def test_so_is_one_with_a_class_whose_name_another_program_may_give_to_another(tmp_path):
    module = write_module(tmp_path, "Blend", 2.0)
    imported = load(tmp_path, f'import: "{module}"\n{HEAD}Blend {{ }}\n')
    own = layer_class("Blend", 5.0)
    assert f'import: "{module}"' in imported.to_text()
    with pytest.raises(UsageError, match=rf"'Blend' is also the name of {module}\.Blend"):
        pt.Sequential([pt.Input((4,)), own()]).to_text()


def test_it_is_no_layer_of_the_package_to_another_system(tmp_path):
    """Not written to Keras as its Dense, and given no Dense's weights."""
    model = pt.Sequential([pt.Input((4,)), layer_class("Dense")()])
    with pytest.raises(UsageError, match="Dense"):
        model.export(tmp_path / "m.keras")


def test_a_word_in_a_written_text_is_checked_as_well():
    own = type("Relu", (ActivationLayer,), {"__module__": "user_program", "call": lambda self, ctx, x: -x})
    with pytest.raises(UsageError, match=r"'relu' is also the name of prototorch\.layers\.\S+ReLU"):
        pt.Sequential([pt.Input((4,)), pt.layers.Dense(2, activation=own())]).to_text()
