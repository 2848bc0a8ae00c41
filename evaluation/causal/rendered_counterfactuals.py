"""Decoded against rendered counterfactuals."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.causal.generativeness import Decoder, decode_codes
from candlelight.evaluation.views import Factors
from candlelight.evaluation.views.check_shapes import check_bool, check_shapes
from candlelight.evaluation.views.named_streams import named_stream
from candlelight.loaders.errors import InputError
from candlelight.loaders.selection.factor_index import FactorIndex
from candlelight.loaders.selection.factor_rows import FactorRows

_TRIES = 20  # rows that are tried for each pair that is wanted


class RenderedPairs(NamedTuple):
    """Pairs that differ in one factor only.

    Attributes:
        factual: row numbers of the factual images.
        rendered: row numbers of their counterfactuals, in the view of the counterfactuals.
        donors: row numbers of other images with the value that the factor has in the counterfactuals, in the
            same view; drawn among the images of other groups than those of the pair, if there are some.
        same_group: whether both images are of one group, so that they share everything that is drawn.
    """

    factual: Int[ndarray, " pairs"]
    rendered: Int[ndarray, " pairs"]
    donors: Int[ndarray, " pairs"]
    same_group: Bool[ndarray, " pairs"]


def find_rendered_pairs(
    data: Factors, counterfactuals: Factors, names: Sequence[str], most: int, seed: int = 0
) -> dict[str, RenderedPairs]:
    """Draw pairs of images that differ in one factor and agree in all others, for each of some factors.

    Pairs of one group are drawn first: rendered images of one group share every drawn variable, such as the
    position, and so do the frames of a counterfactual set and the frames that they are of. Groups and ids of
    both views are compared by name. In the pairs of one factor, no image occurs twice.

    Args:
        data: the factual images.
        counterfactuals: images among which the counterfactuals are found; may be ``data``.
        names: factors.
        most: largest number of pairs of each factor.
        seed: seed of the draws, of which each factor has its own.

    Returns:
        Pairs by factor; none if no image differs from another in this factor alone, as in sets of continuous
        factors, or of factors that determine each other. A pair without a third image that has the new value
        is left out.

    Raises:
        InputError: the views have different factors.

    Example:
        >>> from candlelight.loaders.schema import FactorInfo
        >>> from candlelight.evaluation.views import DataIdentity
        >>> class Rows:
        ...     identity, ids, groups = DataIdentity("rows", "memory"), tuple("abcd"), tuple("abcd")
        ...     known_ids = frozenset(ids)
        ...     factors = tuple(FactorInfo(name=name, kind="categorical", values=(0, 1)) for name in "xy")
        ...     table = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        ...     def __len__(self): return 4
        ...     def __getitem__(self, row): return np.zeros((3, 8, 8))
        >>> found = find_rendered_pairs(Rows(), Rows(), ["x"], most=5)["x"]
        >>> sorted(zip(found.factual.tolist(), found.rendered.tolist()))
        [(1, 0), (3, 2)]
    """
    check_same_factors(data, counterfactuals)
    index, positions = match_values(data, counterfactuals)
    return {name: _draw(index, positions, data, counterfactuals, name, most, seed) for name in names}


def check_same_factors(data: Factors, counterfactuals: Factors) -> None:
    """Refuse counterfactuals that have other factors than the data.

    Raises:
        InputError: a factor of one view is missing in the other.
    """
    wanted, got = ([info.name for info in view.factors] for view in (data, counterfactuals))
    if set(wanted) != set(got):
        raise InputError(
            f"counterfactuals: expected the factors of the data ({', '.join(wanted)}), got {', '.join(got)}"
        )


def match_values(data: Factors, counterfactuals: Factors) -> tuple[FactorRows, Int[ndarray, "rows factors"]]:
    """Index counterfactuals, and look up the class numbers of the data; -1 for a value that is not there.

    Example:
        >>> from candlelight.evaluation.causal.factor_data import factors_of_columns
        >>> shapes = ["cube", "ball"], ["cone", "cube"]
        >>> views = [factors_of_columns("shapes", {"shape": some}) for some in shapes]
        >>> match_values(*views)[1].tolist()
        [[1], [-1]]
    """
    index = FactorIndex.from_table(counterfactuals.factors, np.asarray(counterfactuals.table))
    infos = {info.name: (info, column) for info, column in zip(data.factors, data.table.T, strict=True)}
    columns = []
    for classes in index.classes:
        info, column = infos[classes.name]
        known = {value: number for number, value in enumerate(classes.values)}
        found, numbers = np.unique(column, return_inverse=True)
        values = [info.values[int(one)] for one in found] if info.values else found.tolist()
        columns.append(np.array([known.get(value, -1) for value in values])[numbers])
    return index, np.stack(columns, axis=1)


def _draw(
    index: FactorRows,
    positions: Int[ndarray, "rows factors"],
    data: Factors,
    counterfactuals: Factors,
    name: str,
    most: int,
    seed: int,
) -> RenderedPairs:
    """Draw the pairs of one factor: of one group as long as there are some, then of any."""
    draws = named_stream(seed, f"pairs {name}")
    column, kept = index.column(name), index.columns(index.others([name]))
    classes = index.groups(index.names[j] for j in kept)
    found = np.where((positions[:, kept] >= 0).all(1), classes.find(positions[:, kept].clip(min=0)), -1)
    rows_of = rows_of_groups(counterfactuals)
    order = draws.permutation(np.flatnonzero(found >= 0))
    known = [row for row in order.tolist() if data.groups[row] in rows_of]
    used: set[str] = set()
    pairs: list[tuple[int, int, bool]] = []
    for same, rows in ((True, known), (False, order.tolist())):
        for row in rows[: _TRIES * most]:
            if len(pairs) == most:
                break
            if data.ids[row] in used:
                continue
            members = rows_of[data.groups[row]] if same else classes.members(int(found[row]))
            others = index.positions(members)
            fits = (others[:, kept] == positions[row, kept]).all(1) & (
                others[:, column] != positions[row, column]
            )
            free = [other for other in members[fits].tolist() if counterfactuals.ids[other] not in used]
            if free:
                other = free[int(draws.integers(len(free)))]
                pairs.append((row, other, counterfactuals.groups[other] == data.groups[row]))
                used |= {data.ids[row], counterfactuals.ids[other]}
    donors = _donors(index, data, counterfactuals, name, [pair[:2] for pair in pairs], seed)
    complete = [(*pair, donor) for pair, donor in zip(pairs, donors, strict=True) if donor is not None]
    table = np.array(complete, dtype=np.int64).reshape(-1, 4)
    return RenderedPairs(table[:, 0], table[:, 1], table[:, 3], table[:, 2].astype(bool))


def _donors(
    index: FactorRows,
    data: Factors,
    counterfactuals: Factors,
    name: str,
    pairs: Sequence[tuple[int, int]],
    seed: int,
) -> list[int | None]:
    """Draw for each pair another row with the value of the counterfactual; None if there is none."""
    draws = named_stream(seed, f"donors {name}")
    values = index.positions(np.arange(len(counterfactuals)))[:, index.column(name)]
    groups = np.array(counterfactuals.groups)
    donors: list[int | None] = []
    for row, other in pairs:
        alike = np.flatnonzero(values == values[other])
        others = alike[alike != other]
        foreign = others[(groups[others] != groups[other]) & (groups[others] != data.groups[row])]
        some = foreign if len(foreign) else others
        donors.append(int(some[draws.integers(len(some))]) if len(some) else None)
    return donors


def rows_of_groups(view: Factors) -> dict[str, Int[ndarray, " rows"]]:
    """Return the row numbers of each group, by its name."""
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for row, group in enumerate(view.groups):
        rows[group].append(row)
    return {group: np.array(some) for group, some in rows.items()}


def pair_units(
    images: Factors, others: Factors, names: Sequence[str]
) -> tuple[Int[Tensor, " pairs"], Int[Tensor, " pairs"], Bool[Tensor, "pairs factors"]]:
    """Pair each sample with the counterfactuals of its unit, which is its group.

    Args:
        images: samples.
        others: counterfactuals.
        names: factors.

    Returns:
        Rows of the samples, rows of their counterfactuals, and the factors that differ.

    Raises:
        InputError: the views have different factors, no unit is in both, or units have steps with draws of
            their own.
    """
    check_same_factors(images, others)
    nodes = getattr(getattr(images, "graph", None), "nodes", ())
    if any(node.previous or node.every == "step" for node in nodes):
        raise InputError(f"`{images.identity.name}` has steps, which differ by more than an intervention")
    samples = rows_of_groups(images)
    pairs = [
        (row, other)
        for other, group in enumerate(others.groups)
        for row in samples.get(group, ())
        if images.ids[row] != others.ids[other]
    ]
    if not pairs:
        raise InputError(
            f"no unit (group) of `{others.identity.name}` is one of `{images.identity.name}`; give "
            "counterfactuals of these samples"
        )
    index, values = match_values(images, others)
    rows, places = np.array(pairs).T
    changed = (values[rows] != index.positions(places))[:, [index.column(name) for name in names]]
    return torch.from_numpy(rows), torch.from_numpy(places), torch.from_numpy(changed)


REGION = 0.1  # share of the largest difference of a pair from which a pixel has changed
_BATCH = 64  # images that are decoded at a time


@dataclass(frozen=True)
class RenderedCounterfactuals:
    """Squared errors of each pair: means over the image, and the part of them in the changed region.

    Attributes:
        changed: error of the decoded counterfactual, whose chosen codes have their values for c.
        none: error of the reconstruction of a, in which no code changes.
        all: error of the reconstruction of b, in which all codes change.
        given_back: error of a itself.
    """

    changed: Float[Tensor, "pairs 2"]
    none: Float[Tensor, "pairs 2"]
    all: Float[Tensor, "pairs 2"]
    given_back: Float[Tensor, "pairs 2"]

    @property
    def score(self) -> Float[Tensor, ""]:
        """Share of the change that the decoded image makes, over the image; see `rendered_score`."""
        return rendered_score(self.changed.mean(0), self.given_back.mean(0))[0]

    @property
    def region_score(self) -> Float[Tensor, ""]:
        """The same in the changed region, which is blind to changes elsewhere."""
        return rendered_score(self.changed.mean(0), self.given_back.mean(0))[1]

    @property
    def share(self) -> Float[Tensor, ""]:
        """Share of the way from changing nothing to changing all codes; nan if that is no improvement."""
        return rendered_share(self.changed[:, 0].mean(), self.none[:, 0].mean(), self.all[:, 0].mean())


def rendered_score(error: Float[Tensor, "*any"], given_back: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """Compute ``1 - sqrt(error / given_back)``, from mean squared errors; nan where ``given_back`` is 0.

    Example:
        >>> rendered_score(torch.tensor([0.0, 0.25, 1.0, 4.0]), torch.ones(4))
        tensor([ 1.0000,  0.5000,  0.0000, -1.0000])
    """
    return 1 - (error / torch.where(given_back > 0, given_back, torch.nan)).sqrt()


def rendered_share(
    error: Float[Tensor, "*any"], none: Float[Tensor, "*any"], whole: Float[Tensor, "*any"]
) -> Float[Tensor, "*any"]:
    """Compute ``1 - (error - whole) / (none - whole)``; nan where ``none`` is not above ``whole``.

    Example:
        >>> rendered_share(torch.tensor([0.25, 0.5]), torch.tensor([1.0, 0.25]), torch.tensor([0.0, 0.25]))
        tensor([0.7500,    nan])
    """
    return 1 - (error - whole) / torch.where(none > whole, none - whole, torch.nan)


def rendered_counterfactuals(
    decoder: Decoder,
    codes: Float[Tensor, "pairs codes"],
    donors: Float[Tensor, "pairs codes"],
    targets: Float[Tensor, "pairs codes"],
    originals: Float[Tensor, "pairs channels height width"],
    rendered: Float[Tensor, "pairs channels height width"],
    changed: Bool[Tensor, "#pairs codes"],
) -> RenderedCounterfactuals:
    """Compare decoded counterfactuals with rendered ones, for pairs of images that differ in one factor.

    For images a and b that differ in factor i only, and another image c that shares the value of this factor
    with b, the codes Z_i of the factor are set to their values for c, and the result is decoded:

        e      = |decode(z(a); do(Z_i = z(c)_i)) - b|^2
        e_back = |a - b|^2
        score  = 1 - sqrt(mean e / mean e_back)

    The score is 1 if the decoded image is b, 0 if it is as far from b as a is, and negative, without a bound,
    if it is farther. ``region_score`` counts only the pixels in which a and b differ, in some channel, by at
    least `REGION` of their largest difference. ``share`` compares the decoder with itself:

        e_none = |decode(z(a)) - b|^2,   e_all = |decode(z(b)) - b|^2
        share  = 1 - (mean e - mean e_all) / (mean e_none - mean e_all)

    It is 1 if the codes Z_i bring the image as near to b as all codes of b do. The values come from c, not
    from b, so that codes that hold other things as well, such as the number of the image, bring these along.

    Blind to: the reason of an error. A poor reconstruction lowers the score as an entangled code does;
    ``share`` divides by the decoder's own gain, so that a decoder which hardly changes the image may have 1.
    The mean of many images is nearer to b than a is, so that it scores above 0: compare with it. If a and b
    also differ in variables that are drawn anew for each image, all errors contain them.

    Args:
        decoder: gives images in [0, 1] of codes.
        codes: codes of the images a.
        donors: codes of the images c.
        targets: codes of the images b.
        originals: the images a, in [0, 1].
        rendered: the images b, in [0, 1].
        changed: codes Z_i, the same for all pairs, or for each pair.

    Returns:
        Errors of each pair, in float64.

    Raises:
        InputError: shapes do not fit, or the decoder does not give an image in [0, 1] for each row.

    Example:
        >>> codes, targets = torch.tensor([[0.1, 0.2]]), torch.tensor([[0.9, 0.2]])
        >>> def decoder(codes): return codes[:, :, None, None]
        >>> images = decoder(codes), decoder(targets)
        >>> changed = torch.tensor([[True, False]])
        >>> donors = torch.tensor([[0.9, 0.7]])
        >>> rendered_counterfactuals(decoder, codes, donors, targets, *images, changed).score
        tensor(1., dtype=torch.float64)
    """
    check_bool(changed=changed)
    check_shapes(
        codes=(codes, "pairs codes"),
        donors=(donors, "pairs codes"),
        targets=(targets, "pairs codes"),
        originals=(originals, "pairs channels height width"),
        rendered=(rendered, "pairs channels height width"),
    )
    region = changed_pixels(originals, rendered)
    none = decoded_errors(decoder, codes, rendered, region)
    whole = decoded_errors(decoder, targets, rendered, region)
    moved = decoded_errors(decoder, torch.where(changed, donors, codes), rendered, region)
    return RenderedCounterfactuals(moved, none, whole, image_errors(originals, rendered, region))


def changed_pixels(
    originals: Float[Tensor, "pairs channels height width"],
    rendered: Float[Tensor, "pairs channels height width"],
) -> Bool[Tensor, "pairs 1 height width"]:
    """Find the pixels that differ by at least `REGION` of the largest difference of the pair.

    Example:
        >>> changed_pixels(torch.zeros(1, 1, 1, 3), torch.tensor([[[[0.0, 0.04, 0.5]]]])).tolist()
        [[[[False, False, True]]]]
    """
    difference = (originals - rendered).abs().amax(1, keepdim=True)
    return (difference > 0) & (difference >= REGION * difference.amax((2, 3), keepdim=True))


def image_errors(
    images: Float[Tensor, "pairs channels height width"],
    rendered: Float[Tensor, "pairs channels height width"],
    region: Bool[Tensor, "pairs 1 height width"],
) -> Float[Tensor, "pairs 2"]:
    """Compute mean squared errors over the image, and the part of them that lies in the region.

    Example:
        >>> region = torch.tensor([[[[True, False]]]])
        >>> image_errors(torch.zeros(1, 1, 1, 2), torch.ones(1, 1, 1, 2), region)
        tensor([[1.0000, 0.5000]], dtype=torch.float64)
    """
    squares = (images.double() - rendered.double()).square()
    return torch.stack([squares.mean((1, 2, 3)), (squares * region).mean((1, 2, 3))], dim=1)


def decoded_errors(
    decoder: Decoder,
    codes: Float[Tensor, "pairs codes"],
    rendered: Float[Tensor, "pairs channels height width"],
    region: Bool[Tensor, "pairs 1 height width"],
) -> Float[Tensor, "pairs 2"]:
    """Compute `image_errors` of decoded images.

    Example:
        >>> def decoder(codes): return codes[:, :, None, None]
        >>> black, whole = torch.zeros(1, 1, 1, 1), torch.ones(1, 1, 1, 1, dtype=torch.bool)
        >>> decoded_errors(decoder, torch.tensor([[0.5]]), black, whole)
        tensor([[0.2500, 0.2500]], dtype=torch.float64)
    """
    unchanged = torch.zeros(codes.shape[1], dtype=torch.bool, device=codes.device)
    errors = []
    for start in range(0, len(codes), _BATCH):
        rows = slice(start, start + _BATCH)
        images = decode_codes(decoder, codes[rows], codes[rows], unchanged)
        check_shapes(
            decoder=(images, "batch channels height width"),
            rendered=(rendered[rows], "batch channels height width"),
        )
        errors.append(image_errors(images, rendered[rows], region[rows]))
    return torch.cat(errors) if errors else torch.zeros(0, 2, dtype=torch.float64)
