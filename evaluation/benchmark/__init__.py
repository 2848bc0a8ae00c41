"""The benchmark of Grosse et al. 2009: its methods on real or rendered objects."""

from evaluation.benchmark.decompose_methods import METHODS as METHODS
from evaluation.benchmark.score_methods import BenchmarkRun as BenchmarkRun
from evaluation.benchmark.score_methods import add_ranks as add_ranks
from evaluation.benchmark.score_methods import score_methods as score_methods
