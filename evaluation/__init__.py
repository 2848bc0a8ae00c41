"""Measure how models respond to the changes in an image set: metrics, models and reports.

Import each subpackage by itself: a metric then does not load the libraries of the other metrics.
"""

if __name__ != "candlelight.evaluation":
    raise ImportError(f"`{__name__}` is a part of candlelight: import `candlelight.evaluation`")
