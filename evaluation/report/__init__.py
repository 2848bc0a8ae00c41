"""Blocks and pages of results: tables, plots and pictures as HTML."""
