"""The language beside Python: how long texts are, and how fast they are read."""
