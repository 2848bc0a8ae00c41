"""Plan of splits for image sets, and its options on the command line."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from candlelight.loaders.errors import InputError

TRAIN, HELD_OUT = "train", "test_ood"
_NAME = re.compile(r"\w+(\.\w+)*", re.ASCII)


@dataclass(frozen=True)
class SplitPlan:
    """Plan of the splits of an image set; by default, all rows are `train`.

    Attributes:
        shares: share of the rows by split name, with a sum of 1; empty for no random split.
        seed: seed of the random split.
        factor: name of the factor that splits the rows instead; "" for none.
        values: values of that factor, as strings, by split name; rows with other values are `train`.
        held_out: combinations of factor values, as strings; rows that show a combination are `test_ood`,
            whatever the rest of the plan says.

    Raises:
        InputError: `datasets` refuses a name, shares do not add up to 1, or shares and a factor are given.

    Example:
        >>> SplitPlan(shares={"train": 0.8, "test": 0.1})
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: split: expected shares above 0 that add up to 1, got \
train=0.8, test=0.1
    """

    shares: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    factor: str = ""
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    held_out: tuple[Mapping[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Refuse a plan that fits no image set."""
        for name in (*self.shares, *self.values):
            if not _NAME.fullmatch(name) or name == "all":
                raise InputError(
                    f"split `{name}`: expected letters, digits and `_`, in parts joined by `.`, and not "
                    "`all`: `datasets` accepts no other name"
                )
        given = self.shares.values()
        if self.shares and not (all(share > 0 for share in given) and abs(sum(given) - 1) < 1e-9):
            got = ", ".join(f"{name}={share:g}" for name, share in self.shares.items())
            raise InputError(f"split: expected shares above 0 that add up to 1, got {got}")
        if bool(self.factor) != bool(self.values) or (self.factor and self.shares):
            raise InputError(
                "split: expected shares for a random split, or values of the factor that splits, not both"
            )
        if self.held_out and HELD_OUT in self.names:
            raise InputError(f"split `{HELD_OUT}` is for held-out rows; give the other split another name")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the splits but `test_ood`, in order."""
        if self.factor:
            return tuple(dict.fromkeys((*([] if TRAIN in self.values else [TRAIN]), *self.values)))
        return tuple(self.shares) or (TRAIN,)


def read_split_plan(
    split: Sequence[str] = (), seed: int = 0, by: str | None = None, held_out: Sequence[str] = ()
) -> SplitPlan:
    """Read the options of `candlelight pack` for splits.

    Args:
        split: for a random split, shares such as ``train=0.8,test=0.2``, in one string or several; with
            ``by``, one string per split with the factor's values, such as ``test=blue,red``.
        seed: seed of the random split.
        by: name of the factor that splits; None for a random split.
        held_out: one string per combination of values, such as ``object_type=torus,color=red``.

    Raises:
        InputError: a string has another form, or `SplitPlan` refuses the plan.

    Example:
        >>> read_split_plan(["test=blue,red"], by="color").values
        {'test': ('blue', 'red')}
        >>> read_split_plan(["train=4"])
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: split: expected shares above 0 that add up to 1, got train=4
    """
    combinations = tuple(_once("hold-out", _pairs("hold-out", text.split(","))) for text in held_out)
    if by is not None:
        texts = _once("split", _pairs("split", split))
        values = {name: tuple(value.strip() for value in text.split(",")) for name, text in texts.items()}
        if not values:
            raise InputError(f"split by `{by}`: expected --split NAME=VALUE,... as well, got none")
        return SplitPlan(factor=by, values=values, held_out=combinations)
    shares = _once("split", _pairs("split", [part for text in split for part in text.split(",")]))
    return SplitPlan(
        shares={name: _share(name, text) for name, text in shares.items()}, seed=seed, held_out=combinations
    )


def _pairs(what: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    pairs = [tuple(part.strip() for part in text.partition("=")[::2]) for text in texts]
    for text, (name, value) in zip(texts, pairs, strict=True):
        if not name or not value:
            raise InputError(f"{what}: expected NAME=VALUE, got `{text}`")
    return [(name, value) for name, value in pairs]


def _once(what: str, pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    if len(dict(pairs)) < len(pairs):
        raise InputError(f"{what}: expected each name once, got {', '.join(name for name, _ in pairs)}")
    return dict(pairs)


def _share(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"split `{name}`: expected a share like 0.8, got `{text}`; values of a factor need --split-by"
        ) from None
