"""Plan the samples of a recipe: draw their factor values, intervene on them, and save them in a file."""
