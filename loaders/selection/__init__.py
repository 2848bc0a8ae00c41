"""Rows by their factors: the index, confounded selection, pairs for weak supervision, and adapters."""
