"""``python -m prototorch``: the command line."""

from prototorch.cli import main

if __name__ == "__main__":
    main()
