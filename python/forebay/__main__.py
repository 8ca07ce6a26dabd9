"""``python -m forebay run mine.toml``: the command line, where ``PATH`` does not lead to it."""

import os
import sys

from ._program import ForebayError, executable

try:
    program = executable()
    os.execv(program, [program, *sys.argv[1:]])
except (ForebayError, OSError) as error:
    sys.exit(f"forebay: {error}")
