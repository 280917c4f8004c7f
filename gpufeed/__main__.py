"""`python -m gpufeed`, the same as the command `gpufeed`."""

import sys

from gpufeed.cli import main

if __name__ == "__main__":
    sys.exit(main())
