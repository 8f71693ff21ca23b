"""Names in a Python file, made of the names of a model: letters, digits and underscores, no word of the language, no
attribute of PyTorch's modules."""

from __future__ import annotations

import keyword
import re
from collections.abc import Container

__all__ = ["attribute_name", "class_name", "unique_name", "variable_name"]

#: the attributes of `torch.nn.Module` and `torch.nn.ModuleDict`, which no submodule may have as its name
_MODULE_ATTRIBUTES = """
    T_destination add_module apply bfloat16 buffers call_super_init children clear compile cpu cuda double dump_patches
    eval extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half ipu items keys
    load_state_dict modules mtia named_buffers named_children named_modules named_parameters parameters pop
    register_backward_hook register_buffer register_forward_hook register_forward_pre_hook register_full_backward_hook
    register_full_backward_pre_hook register_load_state_dict_post_hook
    register_load_state_dict_pre_hook register_module register_parameter
    register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ set_extra_state set_submodule share_memory
    state_dict to to_empty train training type update values xpu zero_grad weight bias
"""
MODULE_ATTRIBUTES = frozenset(_MODULE_ATTRIBUTES.split())
_RESERVED = frozenset(("self", "torch", "nn", "F", "super", "range", "float", "list", "tuple", "slice", "reversed",
                       "step", "Tensor"))  # fmt: skip


def attribute_name(part: str) -> str:
    """A part of a layer's name as the name of a submodule; digits stay, for a key in a ``ModuleDict``."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", part) or "_"
    if name.startswith("_"):  # what is private in Python, and to PyTorch
        name = f"layer{name}"
    if keyword.iskeyword(name) or keyword.issoftkeyword(name) or name in MODULE_ATTRIBUTES:
        name += "_"
    return name


def variable_name(part: str) -> str:
    """A name in lower case with underscores, no keyword of Python, as variables and arguments have."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", part).strip("_").lower() or "value"
    name = name if name[0].isalpha() else f"value_{name}"
    return f"{name}_" if keyword.iskeyword(name) or keyword.issoftkeyword(name) or name in _RESERVED else name


def class_name(part: str) -> str:
    """A name as that of a class: words joined, without the number at its end."""
    words = [w for w in re.split(r"[^A-Za-z0-9]+", re.sub(r"[_\W]*\d+$", "", part)) if w]
    name = "".join(w[0].upper() + w[1:] for w in words)
    return name if name[:1].isalpha() and name not in ("Tensor", "None", "True", "False", "F") else f"Net{name}"


def unique_name(name: str, others: Container[str]) -> str:
    """The name, or the name and a number, that is not among others."""
    candidate, number = name, 1
    while candidate in others:
        number += 1
        candidate = f"{name}_{number}"
    return candidate
