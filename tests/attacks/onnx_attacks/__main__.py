"""Command line: see generate.py."""

from .generate import main

main()
