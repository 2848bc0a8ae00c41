"""InfoM, InfoC and InfoE: modularity, compactness and explicitness by information (Hsu et al. 2023)."""

import warnings
from collections.abc import Collection
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from candlelight.evaluation.causal.estimation.code_inputs import factor_classes, standardise
from candlelight.evaluation.causal.estimation.discretise import BinRule
from candlelight.evaluation.causal.estimation.mutual_information import entropy, mutual_information_matrix
from candlelight.evaluation.causal.estimation.neighbour_information import neighbour_information

_LEAST_RANGE = 1 / 20  # range of an active code, as a share of the largest range
_ITERATIONS = 100  # those of the authors' program


@dataclass(frozen=True)
class InfoMEC:
    """The three scores and their parts.

    Attributes:
        modularity: InfoM, in [0, 1]: each active code knows about one factor; nan if one factor varies.
        explicitness: InfoE, in [0, 1]: a linear model predicts each factor from all codes.
        compactness: InfoC, in [0, 1]: one active code knows about each factor; nan with one active code.
        information: normalised mutual information of each code with each factor; nan if the factor has one
            value.
        active: codes that vary enough to count in InfoM and InfoC.
        per_code: share of the largest entry of each code, scaled like InfoM; nan for codes that do not count.
        per_factor: share of the largest entry of each factor, scaled like InfoC; nan if the factor has one
            value.
        predictable: share of the entropy of each factor that the linear model removes; nan if the factor has
            one value.
    """

    modularity: Float[Tensor, ""]
    explicitness: Float[Tensor, ""]
    compactness: Float[Tensor, ""]
    information: Float[Tensor, "codes factors"]
    active: Bool[Tensor, " codes"]
    per_code: Float[Tensor, " codes"]
    per_factor: Float[Tensor, " factors"]
    predictable: Float[Tensor, " factors"]


def infomec(
    codes: Real[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    bins: int = 20,
    rule: BinRule = "width",
    categorical: Collection[int] = (),
    neighbours: int = 10,
) -> InfoMEC:
    """Measure modularity, explicitness and compactness by information: Hsu et al. 2023, sec. 4.

    With ``NMI_li = I(z_l; g_i) / H(g_i)``, k factors that vary and d active codes (Disentanglement via Latent
    Quantization, NeurIPS):

        InfoM = (mean_l max_i NMI_li / sum_i NMI_li - 1 / k) / (1 - 1 / k)
        InfoC = (mean_i max_l NMI_li / sum_l NMI_li - 1 / d) / (1 - 1 / d)
        InfoE = mean_i (H(g_i) - H_V(g_i | z)) / H(g_i)

    I of continuous codes is estimated by nearest neighbours (`neighbour_information`), I of integer codes by
    counts. H_V is the mean logarithmic loss of an unpenalised multinomial logistic regression on all
    standardised codes (one-hot for integer codes), in sample: predictive information of linear models. A code
    is active if its range exceeds 1/20 of the largest range; integer codes if they vary. A code or factor
    without any information has uniform shares, hence 0. Unlike the authors' program, the regression does not
    weight classes equally, so that H(g_i) is the entropy also for unequal classes; for equal classes both
    agree.

    Blind to: InfoM to lost factors, InfoC to mixed codes, InfoE to both. The ranges of codes decide which are
    active: scaling one code can remove the others. InfoE is in sample and near 1 for any codes if there are
    about as many codes as samples; a factor that codes represent nonlinearly lowers it. If factors depend on
    each other, pure codes have information about several factors, and InfoM and InfoC fall below 1. The
    estimate by neighbours assumes continuous codes: repeated values need integer codes. For classes of fewer
    than ``neighbours`` samples it is imprecise, and the cut of negative estimates at 0 gives noise positive
    shares. Cutting continuous factors into bins is not in the paper, whose factors are classes.

    Args:
        codes: one code vector per sample; floats are continuous, integers are classes, such as quantised
            codes.
        factors: floats are cut into ``bins``, integers are classes.
        bins: see `discretise`.
        rule: see `discretise`.
        categorical: columns of float factors that hold classes, see `discretise`.
        neighbours: see `neighbour_information`; the paper has 10.

    Returns:
        Values in float64.

    Raises:
        InputError: a dimension is missing, there are no codes, values are not finite, no factor varies,
            ``bins``, ``categorical`` or ``neighbours`` is out of range, or ``rule`` is misspelt.

    Example:
        >>> factors = torch.cartesian_prod(torch.arange(3), torch.arange(3))
        >>> result = infomec(factors, factors)
        >>> result.modularity, result.compactness
        (tensor(1., dtype=torch.float64), tensor(1., dtype=torch.float64))
        >>> infomec(factors[:, [0, 0, 1]], factors).per_factor  # factor 0 twice
        tensor([0.2500, 1.0000], dtype=torch.float64)
    """
    classes, varies = factor_classes(codes, factors, bins, rule, categorical)
    quantised = not codes.is_floating_point()
    amount = (
        mutual_information_matrix(codes, classes)
        if quantised
        else neighbour_information(codes, classes, neighbours)
    )
    entropies = entropy(classes)
    information = torch.where(varies, amount / entropies, torch.nan)
    span = (codes.amax(0) - codes.amin(0)).double()
    active = span > (0 if quantised else span.max() * _LEAST_RANGE)
    used = information[active][:, varies]
    per_code = _spread(_largest_share(used, dim=1), active)
    per_factor = _spread(_largest_share(used, dim=0), varies)
    rows = torch.cat([one_hot(c) for c in _numbered(codes)], dim=1) if quantised else standardise(codes)
    loss = [_linear_loss(rows, column) for column in classes[:, varies].unbind(1)]
    # The optimiser stops a little above the loss of a constant, which it cannot exceed.
    predictable = _spread((1 - torch.stack(loss) / entropies[varies]).clamp(min=0), varies)
    return InfoMEC(
        per_code[active].mean() if bool(active.any()) else per_code.new_zeros(()),
        predictable[varies].mean(),
        per_factor[varies].mean(),
        information,
        active,
        per_code,
        per_factor,
        predictable,
    )


def _largest_share(information: Float[Tensor, "codes factors"], dim: int) -> Tensor:
    """Return the share of the largest entry, scaled from [1 / entries, 1] to [0, 1]; nan for one entry."""
    entries = information.shape[dim]
    if entries == 0:
        return information.new_zeros(information.shape[1 - dim])
    total = information.sum(dim)
    share = torch.where(total > 0, information.amax(dim) / total, 1 / entries)
    return (share - 1 / entries) / (1 - 1 / entries) if entries > 1 else torch.full_like(total, torch.nan)


def _spread(values: Tensor, places: Bool[Tensor, " all"]) -> Float[Tensor, " all"]:
    """Put values at the true places, and nan elsewhere."""
    spread = torch.full(places.shape, torch.nan, dtype=torch.float64, device=places.device)
    spread[places] = values
    return spread


def _numbered(codes: Int[Tensor, "samples codes"]) -> list[Int[Tensor, " samples"]]:
    return [torch.unique(code, return_inverse=True)[1] for code in codes.unbind(1)]


def _linear_loss(rows: Tensor, classes: Int[Tensor, " samples"]) -> Float[Tensor, ""]:
    """Return the mean logarithmic loss of a multinomial logistic regression, in sample."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    _, labels = torch.unique(classes, return_inverse=True)
    table, truth = rows.double().numpy(force=True), labels.numpy(force=True)
    with warnings.catch_warnings():
        # Classes that a plane separates have no finite optimum: the loss approaches 0 as weights grow.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        model = LogisticRegression(C=float("inf"), max_iter=_ITERATIONS).fit(table, truth)
    scores = torch.from_numpy(model.decision_function(table)).to(rows.device)
    if scores.ndim == 1:
        scores = torch.stack([torch.zeros_like(scores), scores], dim=1)
    return cross_entropy(scores, labels)
