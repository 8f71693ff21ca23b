"""The names of torch.nn, torch.nn.functional and torch.nn.init: each is here, or is refused by name with a reason."""

import inspect

import pytest
import torch

import prototorch as pt
from prototorch import nn
from prototorch.nn.missing import MISSING
from prototorch.nn.module_tree import ModuleTree

#: functions of nn.functional that do not exist here
NO_FUNCTIONS = {
    "conv_tbc": "a layout of its own", "ctc_loss": "does not exist", "fractional_max_pool2d": "does not exist",
    "fractional_max_pool2d_with_indices": "does not exist", "fractional_max_pool3d": "does not exist",
    "fractional_max_pool3d_with_indices": "does not exist", "grouped_mm": "GPUs of one kind alone",
    "linear_cross_entropy": "two functions as one", "native_channel_shuffle": "PyTorch's own name of channel_shuffle",
    "scaled_grouped_mm": "GPUs of one kind alone", "scaled_mm": "GPUs of one kind alone",
}  # fmt: skip
HELPERS = {"assert_int_or_pair", "boolean_dispatch", "handle_torch_function", "has_torch_function",
           "has_torch_function_unary", "has_torch_function_variadic"}  # fmt: skip


def test_every_module_of_pytorch_is_here_or_refused_by_name():
    theirs = {name for name in dir(torch.nn) if name[0].isupper()}
    assert theirs - set(nn.__all__) == set(MISSING)
    ours = {name for name in nn.__all__ if name[0].isupper()}
    assert ours - theirs == {"LayerChild"}
    for name in MISSING:
        with pytest.raises(AttributeError, match=f"prototorch.nn.{name} does not exist: "):
            getattr(nn, name)


def test_every_function_of_pytorch_is_here_or_known_to_be_missing():
    F = torch.nn.functional
    theirs = {
        name
        for name in dir(F)
        if name[0].islower()
        and not name.startswith("_")
        and callable(getattr(F, name))
        and not inspect.isclass(getattr(F, name))
    }
    assert theirs - set(nn.functional.__all__) - HELPERS == set(NO_FUNCTIONS)
    assert set(nn.functional.__all__) <= set(dir(F))


def test_every_initializer_of_pytorch_is_here():
    theirs = {
        n
        for n in dir(torch.nn.init)
        if n.rstrip("_").islower() and not n.startswith("_") and inspect.isfunction(getattr(torch.nn.init, n))
    }
    assert theirs <= set(nn.init.__all__)


def test_every_method_of_a_module_is_here():
    theirs = {n for n in dir(torch.nn.Module) if not n.startswith("_")}
    other = {"ipu", "xpu", "mtia", "T_destination", "call_super_init", "dump_patches"}
    assert theirs - set(dir(nn.Module)) - other == {"compile", "to_empty"}


@pytest.mark.parametrize("name", sorted(set(nn.__all__) & set(dir(torch.nn))))
def test_arguments_have_the_names_and_order_of_pytorch(name):
    """A positional argument of a listing means the same here."""
    ours, theirs = getattr(nn, name), getattr(torch.nn, name)
    if not (isinstance(ours, type) and issubclass(ours, ModuleTree)):
        pytest.skip("not a module")
    mine = [p for p in inspect.signature(ours.__init__).parameters.values() if p.name != "self"]
    peer = [p for p in inspect.signature(theirs.__init__).parameters.values() if p.name != "self"]
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in [*mine, *peer]):
        return
    assert [p.name for p in mine] == [p.name for p in peer]
    for a, b in zip(mine, peer, strict=True):
        assert a.kind == b.kind, a.name
        assert (a.default is a.empty) == (b.default is b.empty), a.name
        if a.default is not a.empty and not callable(b.default):
            assert a.default == b.default, a.name


def test_the_module_of_the_package_is_the_one_of_nn():
    assert pt.Module is nn.Module
