"""Checks of arguments, and results of other programs read from files."""
