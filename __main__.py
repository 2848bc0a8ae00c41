"""`python -m candlelight` runs the command line."""

from candlelight.cli import main

main(prog_name="candlelight")
