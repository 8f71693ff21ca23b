"""Roots of families of PyTorch's face, whose classes the index finds in their files (`prototorch.base.index`)."""

from __future__ import annotations

from typing import Any

__all__ = ["DeclaredFamily"]


class DeclaredFamily:
    """The base of a family's root: ``class Optimizer(DeclaredFamily, family="optim")``.

    A class below the root is a member where a file of the package declares it and does not call it abstract. Nothing is
    registered when a class is defined; `PublicNames` imports a member's module when its name is asked for.
    """

    def __init_subclass__(cls, *, family: str | None = None, abstract: bool = False, **options: Any):
        """Take the two facts that the index reads from the source."""
        super().__init_subclass__(**options)
