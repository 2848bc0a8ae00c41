"""Run models over data: batches, checked outputs, finished steps, results, intervals and comparisons."""
