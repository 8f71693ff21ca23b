"""The LALR parser: runs the tables that lark computes from the grammar, and calls the tree builder.

A state is a dict: the type of a token gives the next state, or the reduction to do first; the name of a rule gives
the state after it. Rules that only pass a value on (``?value: number``) change the state and nothing else.

10 MB of text are parsed in half the time that lark's own loop takes, and calls, whose values pass through a dozen rules
of expressions, in less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, TypeAlias

from lark import Lark
from lark.grammar import Rule, Terminal
from lark.parsers.lalr_analysis import Shift

from prototorch.text.parse_context import Token

__all__ = ["END", "ParseTables", "UnexpectedTokenError"]

END = "$END"  # the type of the token behind the last one

_Build: TypeAlias = Callable[[list[Any]], Any]
_State: TypeAlias = dict[str, Any]


class UnexpectedTokenError(Exception):
    """A token that no rule accepts. at: its index. accepts: the types of the tokens that may stand there."""

    def __init__(self, at: int, accepts: set[str]):
        super().__init__(at, accepts)
        self.at = at
        self.accepts = accepts


class ParseTables:
    """The states of a grammar; ``builder`` has a method for each of its rules, which takes the list of its parts."""

    def __init__(self, lark: Lark, starts: Iterable[str], builder: Any):
        self._states: dict[str, tuple[_State, _State]] = {}  # the first and the last, by rule
        new_states: dict[Any, _State] = {}
        reductions: dict[Rule, tuple[int, str, _Build | None]] = {}
        for start in starts:
            config = lark.parse_interactive("", start).parser_state.parse_conf
            if not new_states:
                new_states.update((number, {}) for number in config.states)
                for number, actions in config.states.items():
                    for name, (action, target) in actions.items():
                        if action is not Shift and target not in reductions:
                            reductions[target] = _to_reduction(target, builder)
                        new_states[number][name] = new_states[target] if action is Shift else reductions[target]
            self._states[start] = new_states[config.start_state], new_states[config.end_state]

    def parse(self, tokens: Iterable[Token], start: str) -> Any:
        """What the builder makes of the tokens. Raises UnexpectedTokenError, and what the builder raises."""
        state, last_state = self._states[start]
        states = [state]
        values: list[Any] = []
        at = -1
        for at, token in enumerate(tokens):
            kind = token.type
            action = state.get(kind)
            while action.__class__ is not dict:
                if action is None:
                    raise UnexpectedTokenError(at, _accepts(states))
                size, rule, build = action
                if build is None:
                    state = states[-1] = states[-2][rule]
                elif size:
                    values[-size:] = (build(values[-size:]),)
                    del states[-size:]
                    state = states[-1][rule]
                    states.append(state)
                else:
                    values.append(build([]))
                    state = state[rule]
                    states.append(state)
                action = state.get(kind)
            state = action
            states.append(state)
            values.append(token)
        while state is not last_state:
            action = state.get(END)
            if action is None or action.__class__ is dict:
                raise UnexpectedTokenError(at + 1, _accepts(states))
            size, rule, build = action
            if build is not None:
                values[len(values) - size :] = (build(values[len(values) - size :]),)
            del states[len(states) - size :]
            state = states[-1][rule]
            states.append(state)
        return values[-1]


def _accepts(states: list[_State]) -> set[str]:
    """The types of the tokens that a parser in these states can shift."""
    return {kind for kind in states[-1] if (kind.isupper() or kind == END) and _can_shift(states, kind)}


def _can_shift(states: list[_State], kind: str) -> bool:
    stack = list(states)
    while (action := stack[-1].get(kind)).__class__ is not dict:
        if action is None:
            return kind == END and len(stack) == 2
        size, rule, _ = action
        del stack[len(stack) - size :]
        stack.append(stack[-1][rule])
    return True


def _to_reduction(rule: Rule, builder: Any) -> tuple[int, str, _Build | None]:
    """The number of a rule's parts, its name, and what makes its value of them; None where that is its only part."""
    parts = [
        (number, not symbol.is_term and symbol.name.startswith("_"))
        for number, symbol in enumerate(rule.expansion)
        if rule.options.keep_all_tokens or not (isinstance(symbol, Terminal) and symbol.filter_out)
    ]
    size, name = len(rule.expansion), str(rule.origin.name)
    passes_on = rule.options.expand1 and not rule.alias
    is_single = len(parts) == 1 and not parts[0][1]
    if passes_on and is_single:
        return size, name, None if size == 1 else itemgetter(parts[0][0])
    make = None if name.startswith("_") else getattr(builder, rule.alias or name, None)
    return size, name, _to_build(size, parts, make, passes_on)


def _to_build(size: int, parts: list[tuple[int, bool]], make: _Build | None, passes_on: bool) -> _Build:
    """make: the builder's method; None for the list of the parts itself, which becomes parts of another rule."""
    takes_all = len(parts) == size
    if not any(is_inner for _, is_inner in parts):
        if takes_all:
            return make or list
        if make is not None and len(parts) > 1:
            pick = itemgetter(*(number for number, _ in parts))
            return lambda values: make(pick(values))

    def build(values: list[Any]) -> Any:
        new_parts: list[Any] = []
        for number, is_inner in parts:
            if not is_inner:
                new_parts.append(values[number])
            elif new_parts:
                new_parts += values[number]
            else:
                new_parts = values[number]
        if passes_on and len(new_parts) == 1:
            return new_parts[0]
        return new_parts if make is None else make(new_parts)

    return build
