"""The commands of planning and rendering, thin wrappers of the functions of this package."""
