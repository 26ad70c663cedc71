"""`python -m zaichik`: the command line."""

import sys

from zaichik.console.main import main

if __name__ == "__main__":
    sys.exit(main())
