"""Groups of images in the permutation test: exchanges if images of one scene are dependent."""

import math
from collections import Counter
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from candlelight.loaders.views import Images

ImageGroups = tuple[Sequence[str], Sequence[str]]  # group of each image of the concept, and of its control
# With fewer no two-sided p-value can be 0.05 or less, as exchanges come in mirrored pairs.
LEAST_EXCHANGES = 40


def known_groups(concept: Images, control: Images) -> ImageGroups | None:
    """Return the groups of the images of two views; None if every image has its own id as its group.

    Example:
        >>> from types import SimpleNamespace as View
        >>> pictures, vases = View(ids=("1.png", "2.png"), groups=("1.png", "2.png")), ("vase", "jug")
        >>> known_groups(pictures, pictures) is None
        True
        >>> known_groups(View(ids=("1.png", "2.png"), groups=vases), View(ids=("a", "b"), groups=vases))
        (('vase', 'jug'), ('vase', 'jug'))
    """
    alone = all(tuple(view.groups) == tuple(view.ids) for view in (concept, control))
    return None if alone else (tuple(concept.groups), tuple(control.groups))


def count_exchanges(groups: ImageGroups) -> int:
    """Count the different results of `exchange_by_group`.

    Example:
        >>> count_exchanges((["a"] * 5, ["a"] * 3)), count_exchanges((list("abc"), list("def")))
        (56, 20)
        >>> count_exchanges((["a"] * 5, ["b"] * 5))  # two scenes cannot be told from two concepts
        1
    """
    inside, outside = (Counter(names) for names in groups)
    count = math.prod(
        math.comb(inside[name] + outside[name], inside[name]) for name in inside.keys() & outside.keys()
    )
    first, second = len(inside.keys() - outside.keys()), len(outside.keys() - inside.keys())
    return count * (math.comb(first + second, first) if min(first, second) > 1 else 1)


def exchange_by_group(
    groups: ImageGroups, keys: Float64[Tensor, "draws images"]
) -> Bool[Tensor, "draws images"]:
    """Exchange images between a concept set and its control so that dependence within groups does no harm.

    Images of a group that is in both sets are exchanged with each other, so each set keeps its number of
    them. Groups that are in one set alone are exchanged whole, so each set keeps its number of groups; they
    stay where a set has only one of them.

    Args:
        groups: group of each image.
        keys: random numbers; equal ones give equal exchanges.

    Returns:
        True for images that count as the concept's.

    Example:
        >>> keys = torch.tensor([[0.8, 0.2, 0.9, 0.3, 0.1]], dtype=torch.float64)
        >>> exchange_by_group((["a", "b", "b"], ["c", "d"]), keys)
        tensor([[False,  True,  True, False,  True]])
    """
    names = [*groups[0], *groups[1]]
    side = torch.arange(len(names)) < len(groups[0])
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    members = side.repeat(len(keys), 1)
    whole = []
    for found in rows.values():
        if len(set(side[found].tolist())) == 1:
            whole.append(found)
        else:
            members[:, found] = side[found][keys[:, found].argsort(1)]
    first = [found[0] for found in whole]
    if min(int(side[first].sum()), int((~side[first]).sum())) > 1:
        drawn = side[first][keys[:, first].argsort(1)]
        for number, found in enumerate(whole):
            members[:, found] = drawn[:, number, None]
    return members
