"""The model language: text -> tree -> expanded tree -> text. Names no layer; see docs/language.md."""
