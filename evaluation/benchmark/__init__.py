"""The benchmark of Grosse et al. 2009: its methods on real or rendered objects."""

from candlelight.loaders.errors import require_module

require_module("torch")

from candlelight.evaluation.benchmark.decompose_methods import METHODS as METHODS
from candlelight.evaluation.benchmark.score_methods import BenchmarkRun as BenchmarkRun
from candlelight.evaluation.benchmark.score_methods import add_ranks as add_ranks
from candlelight.evaluation.benchmark.score_methods import score_methods as score_methods
