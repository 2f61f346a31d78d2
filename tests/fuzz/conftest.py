"""Modules of the fuzzer stand beside the tests, and are run as a program, too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
