"""Choose rows by factors: the index, confounded selections, pairs for weak supervision, and adapters."""
