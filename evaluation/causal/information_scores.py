"""Scores of mutual information: MIG, modularity, InfoMEC, minimality and sufficiency."""

import warnings
from collections.abc import Collection
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot, pad

from candlelight.evaluation.causal.code_inputs import (
    BinRule,
    discretise,
    factor_classes,
    standardise,
    takes_arrays,
)
from candlelight.evaluation.causal.information import (
    entropy,
    mutual_information_matrix,
    neighbour_information,
)


@dataclass(frozen=True)
class MIG:
    """The mutual information gap and its parts.

    Attributes:
        score: mean gap of the factors that vary, in [0, 1]; higher is better.
        gaps: gap of each factor; nan if the factor has one value.
        information: mutual information of each code with each factor, nats.
        entropies: entropy of each factor, nats.
        best: code with the largest information about each factor, the first of equal ones.
    """

    score: Float[Tensor, ""]
    gaps: Float[Tensor, " factors"]
    information: Float[Tensor, "codes factors"]
    entropies: Float[Tensor, " factors"]
    best: Int[Tensor, " factors"]


@takes_arrays
def mig(
    codes: Real[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    bins: int = 20,
    rule: BinRule = "width",
    categorical: Collection[int] = (),
) -> MIG:
    """Measure by how much the best code of each factor knows more about it than the second-best code.

    ``MIG = mean_i (I(z_a; g_i) - I(z_b; g_i)) / H(g_i)``, where a and b are the codes with the largest and
    second-largest information about factor i: Chen et al. 2018 (Isolating Sources of Disentanglement in
    Variational Autoencoders, NeurIPS), sec. 4. The paper integrates over the encoder's distribution; here, as
    in disentanglement_lib, I is the plug-in information of one vector per sample, such as the means, in bins.

    Blind to: a code that represents several factors, which scores as well as a pure one; information in other
    codes than the best two. A factor represented by two codes, such as the sine and cosine of an angle,
    scores low although nothing is mixed. If factors depend on each other, even the factors themselves as
    codes score below 1, because each code knows about other factors. Few samples raise the information of all
    codes, and the gap of pure noise above 0. The number of bins changes the score; with as many bins as
    samples every code determines everything, and the gap vanishes.

    Args:
        codes: one code vector per sample; floats are cut into ``bins``, integers are classes.
        factors: floats are cut into ``bins``, integers are classes.
        bins: see `discretise`.
        rule: see `discretise`.
        categorical: columns of float factors that hold classes, see `discretise`.

    Returns:
        Values in float64. With a single code, the second-largest information is 0.

    Raises:
        InputError: a dimension is missing, there are no codes, values are not finite, no factor varies,
            ``bins`` or ``categorical`` is out of range, or ``rule`` is misspelt.

    Example:
        >>> factors = torch.cartesian_prod(torch.arange(3), torch.arange(3))
        >>> mig(factors.double(), factors, bins=3).score.round(decimals=6)
        tensor(1., dtype=torch.float64)
        >>> mig(factors.double()[:, [0, 0, 1]], factors, bins=3).gaps.round(decimals=6)  # factor 0 twice
        tensor([0., 1.], dtype=torch.float64)
    """
    classes, varies = factor_classes(codes, factors, bins, rule, categorical)
    information = mutual_information_matrix(discretise(codes, bins, rule), classes)
    entropies = entropy(classes)
    first, second = pad(information, (0, 0, 0, 1)).topk(2, dim=0).values
    gaps = torch.where(varies, ((first - second) / entropies).clamp(max=1), torch.nan)
    return MIG(gaps[varies].mean(), gaps, information, entropies, information.argmax(0))


@dataclass(frozen=True)
class Modularity:
    """Modularity and its parts.

    Attributes:
        score: mean over codes, in [0, 1]; higher is better.
        per_code: modularity of each code; 0 for a code without information about any factor.
        information: mutual information of each code with each factor, nats.
        parents: factor that each code knows most about, the first of equal ones.
    """

    score: Float[Tensor, ""]
    per_code: Float[Tensor, " codes"]
    information: Float[Tensor, "codes factors"]
    parents: Int[Tensor, " codes"]


@takes_arrays
def modularity(
    codes: Real[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    bins: int = 20,
    rule: BinRule = "width",
    categorical: Collection[int] = (),
) -> Modularity:
    """Measure how far each code carries information about one factor only.

    ``1 - sum_{i != a} I(z_l; g_i)^2 / (I(z_l; g_a)^2 (k - 1))`` for code l, where a is the factor with the
    largest information and k the number of factors that vary: Ridgeway and Mozer 2018 (Learning Deep
    Disentangled Embeddings With the F-Statistic Loss, NeurIPS), with plug-in information in bins, as in
    disentanglement_lib. Factors with one value are left out.

    Blind to: lost factors (all codes may repeat one factor), and the size of the information: a code of noise
    scores by chance, often above 0.5, because few samples give some information about every factor. Factors
    with more entropy give more information, so that a code which mixes a factor of two values with a factor
    of many values seems pure. If factors depend on each other, even pure codes score below 1. Many factors
    raise the score: a code that mixes two of k factors equally has ``1 - 1 / (k - 1)``.

    Args:
        codes: one code vector per sample; floats are cut into ``bins``, integers are classes.
        factors: floats are cut into ``bins``, integers are classes.
        bins: see `discretise`.
        rule: see `discretise`.
        categorical: columns of float factors that hold classes, see `discretise`.

    Returns:
        Values in float64.

    Raises:
        InputError: a dimension is missing, there are no codes, values are not finite, fewer than two factors
            vary, ``bins`` or ``categorical`` is out of range, or ``rule`` is misspelt.

    Example:
        >>> factors = torch.cartesian_prod(torch.arange(2), torch.arange(2), torch.arange(2))
        >>> codes = torch.stack([factors[:, 0], factors[:, 0] + 2 * factors[:, 1]], dim=1)
        >>> modularity(codes, factors).per_code
        tensor([1.0000, 0.5000], dtype=torch.float64)
    """
    classes, varies = factor_classes(codes, factors, bins, rule, categorical, least=2)
    information = mutual_information_matrix(discretise(codes, bins, rule), classes)
    squared = information.square()
    largest, parents = squared.max(dim=1)
    others = (squared.sum(1) - largest) / (largest * (int(varies.sum()) - 1))
    per_code = torch.where(largest > 0, 1 - others, 0)
    return Modularity(per_code.mean(), per_code, information, parents)


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


@takes_arrays
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


@dataclass(frozen=True)
class MinimalityAndSufficiency:
    """The two scores and their parts.

    Attributes:
        minimality: mean of ``per_code`` over the codes that vary, in [0, 1]; higher is better. 0 if none
            varies.
        sufficiency: mean of ``per_factor`` over the factors that vary, in [0, 1]; higher is better.
        per_code: share of the entropy of each code that its best factor explains; nan for a constant code.
        per_factor: share of the entropy of each factor that its best code explains; nan if the factor has one
            value.
        information: mutual information of each code with each factor, nats.
    """

    minimality: Float[Tensor, ""]
    sufficiency: Float[Tensor, ""]
    per_code: Float[Tensor, " codes"]
    per_factor: Float[Tensor, " factors"]
    information: Float[Tensor, "codes factors"]


@takes_arrays
def minimality_and_sufficiency(
    codes: Real[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    bins: int = 15,
    rule: BinRule = "width",
    categorical: Collection[int] = (),
) -> MinimalityAndSufficiency:
    """Measure whether each code knows about one factor alone, and one code knows all about each factor.

    ``minimality = mean_l max_i I(z_l; g_i) / H(z_l)``, ``sufficiency = mean_i max_l I(z_l; g_i) / H(g_i)``:
    Almudevar and Ortega 2024 (Rethinking Disentanglement under Dependent Factors of Variation, arXiv
    2408.07016), with plug-in information in bins as in the authors' program. The paper divides by the
    information of code and image, which is H(z_l) because the code is a function of the image. Constant codes
    and factors with one value are left out.

    Holds for dependent factors: the factors themselves as codes score 1 in both, however strongly they depend
    on each other, because no code is charged for information that its own factor gives about others.

    Blind to: minimality alone to lost factors (all codes may repeat one factor), sufficiency alone to mixing
    (a code that holds all factors is sufficient for each) and to factors that only several codes together
    determine. Read both. If factors are confounded fully, a code of one is a code of the other. Noise in a
    code, and a map of which the bins keep more values than the factor has, lower minimality; a map that
    merges values in one bin lowers sufficiency. Few samples raise both, also for noise: with as many bins as
    samples every code determines everything.

    Args:
        codes: one code vector per sample; floats are cut into ``bins``, integers are classes.
        factors: floats are cut into ``bins``, integers are classes.
        bins: see `discretise`; the authors' program has 15.
        rule: see `discretise`.
        categorical: columns of float factors that hold classes, see `discretise`.

    Returns:
        Values in float64.

    Raises:
        InputError: a dimension is missing, there are no codes, values are not finite, no factor varies,
            ``bins`` or ``categorical`` is out of range, or ``rule`` is misspelt.

    Example:
        >>> factors = torch.cartesian_prod(torch.arange(2), torch.arange(2))
        >>> codes = torch.stack([factors[:, 0], factors[:, 0] + 2 * factors[:, 1]], dim=1)
        >>> found = minimality_and_sufficiency(codes, factors)
        >>> found.per_code, found.per_factor
        (tensor([1.0000, 0.5000], dtype=torch.float64), tensor([1., 1.], dtype=torch.float64))
    """
    classes, varies = factor_classes(codes, factors, bins, rule, categorical)
    cells = discretise(codes, bins, rule)
    information = mutual_information_matrix(cells, classes)
    used = (cells != cells[:1]).any(0)
    per_code = torch.where(used, (information.amax(1) / entropy(cells)).clamp(max=1), torch.nan)
    per_factor = torch.where(varies, (information.amax(0) / entropy(classes)).clamp(max=1), torch.nan)
    return MinimalityAndSufficiency(
        per_code.nanmean().nan_to_num(0), per_factor.nanmean(), per_code, per_factor, information
    )
