"""Run models over data: batches, hidden layers, checked outputs, finished steps."""
