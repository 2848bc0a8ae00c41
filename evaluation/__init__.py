"""Measure how models respond to the changes in an image set: metrics, models and reports.

`evaluate` scores models by an evaluation, shipped or one's own: an `Evaluation`, whose options are a data
class with the annotations `Help` and `At`. Import each subpackage by itself: a metric then does not load the
libraries of the other metrics.
"""

import lazy_loader

if __name__ != "candlelight.evaluation":
    raise ImportError(f"`{__name__}` is a part of candlelight: import `candlelight.evaluation`")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
