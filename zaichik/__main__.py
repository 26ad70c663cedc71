"""`python -m zaichik`: the command line."""

import sys

from zaichik.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
