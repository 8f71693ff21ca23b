"""A net as a text that a person would have written: blocks where a pattern repeats, branches where paths merge."""

from prototorch.interop.text_generation.generator import GeneratedText, NamePolicy, generate_text

__all__ = ["GeneratedText", "NamePolicy", "generate_text"]
