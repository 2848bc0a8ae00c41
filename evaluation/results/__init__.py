"""Results of evaluations: intervals, comparisons and files."""
