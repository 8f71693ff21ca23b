"""What the words of the grammar and the fields of the top level mean, for manual pages and editors."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CONSTANTS", "KEYWORDS", "LAYER_WORDS", "TOP_LEVEL", "LanguageWord"]


@dataclass(frozen=True)
class LanguageWord:
    """form: how it is written; doc: what it means; is_statement: whether statements begin with it."""

    form: str
    doc: str
    is_statement: bool = False


#: those of the grammar
KEYWORDS = {
    "param": LanguageWord("param classes: 1000", "A value that the caller may set: --set classes=10.", True),
    "let": LanguageWord("let half: $(dim // 2)", "A value that is computed, for the body that it stands in.", True),
    "assert": LanguageWord(
        'assert $(dim % heads == 0), "dim must divide by heads"', "An error where a condition does not hold.", True
    ),
    "repeat": LanguageWord("repeat (width, stride) in rows { }", "The body once for each value.", True),
    "if": LanguageWord("if project { } else { }", "One of the bodies; in an expression `a if condition else b`.", True),
    "else": LanguageWord("if project { } else { }", "What holds where no condition before it does."),
    "block": LanguageWord("block conv_bn(filters, kernel: 1) { }", "A part of a net, for uses by its name.", True),
    "include": LanguageWord('include "blocks/resnet.proto"', "The params and blocks of another file.", True),
    "from": LanguageWord('include conv_bn from "blocks/resnet.proto"', "The file that names are taken of."),
    "in": LanguageWord("repeat i in rows { }", "What a loop goes over; in an expression, whether a list has a value."),
    "for": LanguageWord("$([2 * i for i in rows if i > 1])", "A list of one value for each of another."),
    "and": LanguageWord("$(a and b)", "Whether both hold."),
    "or": LanguageWord("$(a or b)", "Whether one holds."),
    "not": LanguageWord("$(not a)", "Whether it does not hold."),
}
#: words that are values in expressions
CONSTANTS = ("true", "false", "none", "inf", "nan")
#: fields at the top level of a text
TOP_LEVEL = {
    "name": LanguageWord('name: "lenet"', "The name of the net."),
    "import": LanguageWord('import: "my_layers"', "Python modules whose layers the text uses (--allow-python)."),
    "data_format": LanguageWord("data_format: channels_last", "The axis of the channels where nothing else says it."),
    "output": LanguageWord('output: ["same", "score"]', "The outputs of the net; the last layer's without it."),
    "class_names": LanguageWord('class_names: ["cat", "dog"]', "The names of the classes that the output tells apart."),
}
#: what any layer of a net takes besides the fields of its class
LAYER_WORDS = {
    "bottom": LanguageWord('bottom: ["a", "b"]', "The outputs that it reads; the one before it without it."),
    "top": LanguageWord('top: "skip"', "The name of its output; that of the layer without it."),
    "branch": LanguageWord("branch { }", "In a merging layer: layers that begin where the layer does."),
}
