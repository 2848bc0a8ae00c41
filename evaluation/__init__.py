"""Measure how models respond to what an image set changes: metrics, models and reports.

Each subpackage is imported by itself, so that a metric does not load the libraries of the others.
"""
