"""Run the command line of generate.py."""

from .generate import main

main()
