"""Tuples of related samples with known targets: counterfactual pairs, triplets, windows of sequences.

These are the data of causal representation learning: each sample of a tuple but the first comes with the
targets of its intervention. Rows, steps and targets come from `causal_columns`, so image sets, packs and the
data sets of ``datasets.load_dataset`` serve alike.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int, UInt8
from numpy import ndarray

from candlelight.loaders.captions import read_captions
from candlelight.loaders.causal_columns import CausalColumns, causal_columns, read_factor_values
from candlelight.loaders.errors import InputError, require_module
from candlelight.loaders.selection.pair_dataset import read_samples


class SampleTuples:
    """Tuples of samples for `torch.utils.data.DataLoader`; `collate_pairs` batches them.

    An item is a dict: ``samples`` is the list of the samples; ``targets`` (bool [factors]) says which factors
    the intervention on the second sample set; ``kinds`` (uint8 [factors]) says how, as a place in
    `candlelight.loaders.causal_columns.INTERVENTION_KINDS`. In tuples of more than two samples, both have a
    leading axis for the second, third, ... sample. `counterfactual_pairs`, `counterfactual_triplets` and
    `sequence_windows` make the tuples of a set.

    Attributes:
        factors: names of the factors, in order of the last axis of targets and kinds.
        rows: row numbers of each tuple [tuples, samples].
        all_kinds: ``kinds`` of each sample but the first, of each tuple [tuples, samples - 1, factors].

    Example:
        >>> data, rows = [{"id": "a-0"}, {"id": "a-1"}], np.array([[0, 1]])
        >>> pairs = SampleTuples((data,), (0, 0), rows, np.array([[[0, 1]]], np.uint8), ("color", "size"))
        >>> pairs[0]["samples"], pairs[0]["targets"]
        ([{'id': 'a-0'}, {'id': 'a-1'}], tensor([False,  True]))
    """

    def __init__(
        self,
        data: Sequence[Any],
        sources: Sequence[int],
        rows: Int[ndarray, "n samples"],
        kinds: UInt8[ndarray, "n changed k"],
        factors: Sequence[str],
    ) -> None:
        """Store the rows of the tuples.

        Args:
            data: image sets.
            sources: place in ``data`` of the set of each sample of a tuple.
            rows: row numbers of the samples.
            kinds: kinds of the interventions on each sample but the first.
            factors: names of the factors.
        """
        self.data, self.sources, self.rows = tuple(data), tuple(sources), rows
        self.factors, self.all_kinds = tuple(factors), kinds

    def __len__(self) -> int:
        """Count the tuples."""
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, Any]:
        """Read one tuple."""
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """Read several tuples, in the requested order; each set is read once."""
        require_module("torch", "torch")
        import torch

        rows = self.rows[list(numbers)]
        samples: list[list[Any]] = [[None] * len(self.sources) for _ in rows]
        for source, data in enumerate(self.data):
            places = [place for place, one in enumerate(self.sources) if one == source]
            found = iter(read_samples(data, rows[:, places].ravel()))
            for one in samples:
                for place in places:
                    one[place] = next(found)
        kinds = self.all_kinds[list(numbers)]
        kinds = kinds[:, 0] if kinds.shape[1] == 1 else kinds
        return [
            {"samples": one, "targets": torch.from_numpy(kind > 0), "kinds": torch.from_numpy(kind)}
            for one, kind in zip(samples, kinds, strict=True)
        ]


class CaptionPair(NamedTuple):
    """Captions of a sample before and after an intervention, and the names of the factors that it set."""

    before: str
    after: str
    changed: tuple[str, ...]


def caption_pair(pairs: SampleTuples, number: int) -> CaptionPair:
    """Describe a pair in words, without reading pixels.

    Args:
        pairs: `counterfactual_pairs` of sets with captions; of longer tuples the first two samples count.
        number: number of the pair.

    Raises:
        InputError: the data have no captions.
    """
    captions = [
        read_captions(pairs.data[source], [int(row)])[0]
        for source, row in zip(pairs.sources[:2], pairs.rows[number], strict=False)
    ]
    changed = (name for name, kind in zip(pairs.factors, pairs.all_kinds[number, 0], strict=True) if kind)
    return CaptionPair(captions[0], captions[1], tuple(changed))


def counterfactual_pairs(
    data: Any, counterfactuals: Any, factors: Sequence[str] | None = None
) -> SampleTuples:
    """Pair each counterfactual with its factual sample.

    Data of Brehmer, de Haan, Lippe and Cohen (2022), "Weakly supervised causal representation learning": a
    sample before and after an intervention, with the same exogenous draws. The paper's method does not see
    the targets, which are there to evaluate it. Interventions that both samples share are no targets of the
    pair. Counterfactuals whose factual sample is not in ``data`` (in another split, or not rendered yet) are
    left out.

    Args:
        data: frames, a pack, or a `datasets.Dataset` that ``load_dataset`` read from a pack.
        counterfactuals: the set whose ``counterfactual_of`` names samples of ``data``; of any such form.
        factors: names of the factors in ``targets``; None for all factors of frames and packs. A
            `datasets.Dataset` needs the names, and so do interventions on variables that are no factors.

    Returns:
        One pair (sample, counterfactual) for each counterfactual, in order of the counterfactuals.

    Raises:
        InputError: no counterfactual has its factual sample, the data lack the columns, or ``factors`` must
            be named.
    """
    columns = causal_columns(counterfactuals)
    names = _factors(data, factors, columns)
    first = columns.factual_rows(causal_columns(data))
    (second,) = np.nonzero(first >= 0)
    _require(len(second), "counterfactual of a sample of the data; give both sets of one split")
    rows = np.stack([first[second], second], axis=1)
    kinds = _own_kinds(data, counterfactuals, names)
    return SampleTuples((data, counterfactuals), (0, 1), rows, kinds[rows[:, 1:]], names)


def counterfactual_triplets(
    data: Any, counterfactuals: Any, factors: Sequence[str] | None = None
) -> SampleTuples:
    """Join each sample x with two counterfactuals of different targets: x under do(a), x under do(b).

    Data of Ahuja, Hartford and Bengio (2022), "Weakly supervised representation learning with sparse
    perturbations", with two perturbations of each sample and known targets.

    Args:
        data: as in `counterfactual_pairs`.
        counterfactuals: as in `counterfactual_pairs`, with several counterfactuals of a sample.
        factors: as in `counterfactual_pairs`; targets differ if they differ in these factors.

    Returns:
        All triplets (sample, counterfactual, other counterfactual), in order of the first counterfactual; a
        sample with m counterfactuals of different targets has m (m - 1) / 2.

    Raises:
        InputError: no sample has two such counterfactuals; or as in `counterfactual_pairs`.
    """
    columns = causal_columns(counterfactuals)
    names = _factors(data, factors, columns)
    kinds = _own_kinds(data, counterfactuals, names)
    changed: dict[int, list[int]] = {}
    for row, factual in enumerate(columns.factual_rows(causal_columns(data)).tolist()):
        if factual >= 0:
            changed.setdefault(factual, []).append(row)
    targets = (kinds > 0).tolist()
    found = [
        (factual, one, other)
        for factual, rows in changed.items()
        for one, other in combinations(rows, 2)
        if targets[one] != targets[other]
    ]
    _require(len(found), "sample with two counterfactuals of different targets")
    rows = np.array(sorted(found, key=lambda row: row[1:]), np.int64)
    return SampleTuples((data, counterfactuals), (0, 1, 1), rows, kinds[rows[:, 1:]], names)


def sequence_windows(data: Any, length: int = 2, factors: Sequence[str] | None = None) -> SampleTuples:
    """Join successive steps of each unit: (x_t, x_t+1) with the targets of the interventions at t + 1.

    Data of Lippe, Magliacane, Löwe, Asano, Cohen and Gavves (2022), "CITRIS: causal identifiability from
    temporal intervened sequences". No window crosses the border of two units. Windows that lack a step
    (in a set that is still being rendered, say) are left out.

    Args:
        data: as in `counterfactual_pairs`; a set with steps.
        length: steps in a window, 2 or more.
        factors: as in `counterfactual_pairs`.

    Returns:
        All windows, in order of their first row.

    Raises:
        InputError: the set has no steps, no unit has so many successive steps, or ``length`` is below 2; or
            as in `counterfactual_pairs`.
    """
    if length < 2:
        raise InputError(f"length: expected 2 steps or more in a window, got {length}")
    columns = causal_columns(data)
    names = _factors(data, factors, columns)
    if columns.steps is None:
        raise InputError("expected a set with steps, got one without; render a recipe with `steps`")
    # The number of a sample is that of its unit times the number of steps, plus the step.
    starts = columns.indices - columns.steps
    place = {number: row for row, number in enumerate(columns.indices.tolist())}
    if len(place) < len(starts):
        raise InputError("expected each sample once, got repeated ones; give the rows of one set")
    windows = []
    for start, index in zip(starts.tolist(), columns.indices.tolist(), strict=True):
        window = [place.get(index + later, -1) for later in range(length)]
        if min(window) >= 0 and (starts[window] == start).all():
            windows.append(window)
    _require(len(windows), f"unit with {length} successive steps; choose a smaller length")
    rows = np.array(windows, np.int64)
    return SampleTuples((data,), (0,) * length, rows, columns.table(names)[rows[:, 1:]], names)


def _own_kinds(data: Any, counterfactuals: Any, names: Sequence[str]) -> UInt8[ndarray, "n k"]:
    """Arrange the kinds of interventions of counterfactuals, without those that their factual samples share.

    A sequence with a target at each step, or a whole set under one intervention, may have counterfactuals.
    """
    before, after = causal_columns(data), causal_columns(counterfactuals)
    kinds, rows = after.table(names), after.factual_rows(before)
    old, new = (read_factor_values(one, names) for one in (data, counterfactuals))
    for column, name in enumerate(names):
        if name in old and name in new:
            shared = (before.table(names)[rows, column] == kinds[:, column]) & (old[name][rows] == new[name])
            kinds[shared & (rows >= 0), column] = 0
    return kinds


def _factors(data: Any, factors: Sequence[str] | None, columns: CausalColumns) -> list[str]:
    if factors is not None:
        return list(factors)
    if not hasattr(data, "set_info"):
        raise InputError(f"factors: expected the names of the factors for a {type(data).__name__}, got none")
    names = [factor.name for factor in data.set_info.factors]
    hidden = [name for name, kinds in columns.kinds.items() if name not in names and kinds.any()]
    if hidden:  # or its targets would look like those of no intervention
        raise InputError(
            f"interventions set `{hidden[0]}`, which is no factor of the set; name all targets: "
            f"factors={[*names, *hidden]}, or leave it out there"
        )
    return names


def _require(count: int, what: str) -> None:
    if not count:
        raise InputError(f"expected a {what}, got none")
