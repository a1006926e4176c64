"""`python -m onnxwire` is the command line."""

import sys

from onnxwire.cli import main

sys.exit(main())
