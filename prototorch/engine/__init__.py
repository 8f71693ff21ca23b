"""Where ops run: backends; and what they are tested with; files that are written whole or not at all."""
