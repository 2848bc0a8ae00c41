"""Graphs that causal-learn finds on factors or codes, and the codes of factors."""

import warnings
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from candlelight.evaluation.catalogue.causal_options import DiscoveryName
from candlelight.evaluation.causal.code_inputs import mean_ranks, standardise
from candlelight.evaluation.causal.factor_table import FactorTable
from candlelight.evaluation.causal.prediction_scores import mcc
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, argument, require_module

# By test: the test of PC, and the score of GES.
INDEPENDENCE_TESTS = {
    "fisher-z": ("fisherz", "local_score_BIC"),
    "ranks": ("fisherz", "local_score_BIC"),
    "chi2": ("chisq", "local_score_BDeu"),
    "kci": ("kci", "local_score_marginal_general"),
}
_ROWS = 4  # fewer have no kernel test


def discover_graph(
    columns: Float[Tensor, "rows n"],
    method: DiscoveryName = "pc",
    test: str = "fisher-z",
    alpha: float = 0.05,
) -> Int[Tensor, "n n"]:
    """Find a CPDAG by causal-learn: by PC (Spirtes and Glymour 1991) or GES (Chickering 2002).

    Assumes that the rows are independent and of one distribution, that no two columns have a hidden common
    cause, and that no column is determined by others.

    Args:
        columns: one column for each node; whole numbers, the classes, for "chi2".
        method: "pc", by tests of independence, or "ges", by a score.
        test: "fisher-z", partial correlations, with BIC for GES; "ranks", the same of ranks; "chi2", with
            BDeu; "kci", kernels, with the marginal likelihood, whose time grows with the cube of the rows.
        alpha: level of the tests of PC.

    Returns:
        The adjacency; see `candlelight.evaluation.causal.graph_scores`.

    Raises:
        InputError: the method or the test is unknown, columns or rows are too few or not finite, a column is
            constant, or columns determine each other.
        ModuleNotFoundError: causal-learn is not installed.

    Example:
        >>> noise = torch.randn(500, 3, generator=torch.Generator().manual_seed(0)).double()
        >>> noise[:, 2] += noise[:, 0] + noise[:, 1]
        >>> discover_graph(noise)  # doctest: +SKIP
        tensor([[0, 0, 1],
                [0, 0, 1],
                [0, 0, 0]])
    """
    require_module("causallearn")
    from causallearn.search.ConstraintBased.PC import pc
    from causallearn.search.ScoreBased.GES import ges

    check_choice("method", method, DiscoveryName)
    check_choice("test", test, tuple(INDEPENDENCE_TESTS))
    if len(columns) < _ROWS or columns.shape[1] < 2 or not bool(columns.isfinite().all()):
        wanted = f"expected {_ROWS} rows or more of two finite columns or more"
        raise InputError(f"{method} cannot be computed: {wanted}, got {list(columns.shape)}")
    if constant := (columns == columns[:1]).all(0).nonzero().flatten().tolist():
        raise InputError(f"{method} cannot be computed: column {constant[0]} has one value")
    table = (mean_ranks(columns) if test == "ranks" else columns).numpy(force=True)
    name, score = INDEPENDENCE_TESTS[test]
    try:
        with warnings.catch_warnings(action="ignore"):  # of fits that the search rejects
            made = pc(table, alpha, name, show_progress=False).G if method == "pc" else ges(table, score)["G"]
    except (ValueError, np.linalg.LinAlgError) as error:
        raise InputError(f"{method} cannot be computed: {error}") from None
    # causal-learn writes the mark of an edge at the node of the row: -1 a tail, 1 an arrowhead.
    ends = torch.from_numpy(np.asarray(made.graph)).long()
    return ((ends == -1) & (ends.T != 0)).long() + 2 * ((ends == 1) & (ends.T == 1))


def match_codes(
    codes: Float[Tensor, "images codes"], table: FactorTable, correlation: Literal["pearson", "spearman"]
) -> tuple[Int[Tensor, " factors"], Float[Tensor, " factors"]]:
    """Give each factor a code of its own, as `mcc` does.

    The strength of a factor whose values have no order is the correlation ratio, the square root of the share
    of the variance of a code between the values; of others it is the absolute correlation.

    Args:
        codes: finite codes, at least as many as factors.
        table: factors of the same images, on the same device.
        correlation: "pearson" or "spearman", of ranks.

    Returns:
        The code of each factor, and its strength in [0, 1].

    Raises:
        InputError: there are fewer codes than factors.

    Example:
        >>> classes = torch.tensor([[0, 1], [1, 0], [2, 1], [0, 0]])
        >>> table = FactorTable(("color", "size"), classes.double(), classes, (0, 1), (0,), ())
        >>> match_codes(classes[:, [1, 0]].double(), table, "pearson")[0]
        tensor([1, 0])
    """
    from scipy.optimize import linear_sum_assignment

    if codes.shape[1] < len(table.names):
        raise InputError(
            f"expected a code for each of {len(table.names)} factors, got {codes.shape[1]} codes; choose as "
            f"many factors by {argument('factors')}"
        )
    strengths = codes.new_zeros(codes.shape[1], len(table.names), dtype=torch.float64)
    if ordered := table.ordered:
        strengths[:, ordered] = mcc(codes, table.values[:, ordered], correlation).matrix
    scaled = standardise(mean_ranks(codes) if correlation == "spearman" else codes)
    for column in table.unordered:
        members = one_hot(table.classes[:, column]).double()
        between = (members.T @ scaled).square() / members.sum(0)[:, None]
        strengths[:, column] = (between.sum(0) / len(codes)).clamp(max=1).sqrt()
    _, assigned = linear_sum_assignment(strengths.T.numpy(force=True), maximize=True)
    places = torch.as_tensor(assigned)
    return places, strengths.cpu().gather(0, places[None])[0]
