"""Rendering a plan: tasks, workers, render processes, and the folder that they write to."""
