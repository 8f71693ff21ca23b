"""The frameworks that the same net is measured in."""

PEERS = ("torch",)
