"""``python -m privet.cli``, for machines where the ``privet`` script is not on the path."""

import sys

from privet.cli import main

if __name__ == "__main__":
    sys.exit(main())
