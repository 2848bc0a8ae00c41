"""Checks of inputs, and arrays in the files of other programs."""
