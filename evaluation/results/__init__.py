"""Results, their intervals and comparisons, and their files."""
