"""Rows of activations and gradients: in memory, in a file or computed again, and their inner products."""
