"""From a recipe to a plan: the value of every factor of every sample, and the file that keeps them."""
