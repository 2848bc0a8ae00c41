"""Choose held-out scenes, and record how a network was trained."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from candlelight.evaluation.models.poisson import named_stream
from candlelight.evaluation.run.json_values import to_json
from candlelight.evaluation.run.result import package_versions
from candlelight.evaluation.training.train_causal import CausalHistory
from candlelight.evaluation.training.train_classifier import ClassifierHistory
from candlelight.evaluation.training.train_intrinsic import History
from candlelight.evaluation.views import View
from candlelight.loaders.errors import InputError
from candlelight.loaders.files.safe_writing import replacing


def hold_out(groups: Sequence[str], share: float, seed: int) -> list[int]:
    """Choose scenes at random, and return the numbers of all of their rows.

    Args:
        groups: scene of each row.
        share: share of the scenes, in [0, 1); of a positive share at least one scene.
        seed: seed of the choice.

    Raises:
        InputError: ``share`` lies outside [0, 1), or no scene would be left for training.

    Example:
        >>> hold_out(["a", "a", "b", "b"], 0.5, seed=0)
        [0, 1]
    """
    if not 0 <= share < 1:
        raise InputError(f"the share of held-out groups must be at least 0 and below 1, got {share}")
    scenes = list(dict.fromkeys(groups))
    count = max(1, round(share * len(scenes))) if share > 0 else 0
    if count >= len(scenes):
        raise InputError(
            f"a share of {share} of {len(scenes)} groups leaves none for training; give 0, or more groups"
        )
    order = named_stream(seed, "validation").permutation(len(scenes))
    chosen = {scenes[place] for place in order[:count]}
    return [row for row, group in enumerate(groups) if group in chosen]


def write_record(
    path: Path,
    data: View[Any],
    held_out: Sequence[int],
    settings: Mapping[str, Any],
    history: History | ClassifierHistory | CausalHistory,
) -> None:
    """Write settings, data and learning curves of a training as JSON, atomically.

    Args:
        path: the file; an existing file is replaced.
        data: all rows.
        held_out: numbers of the held-out rows.
        settings: arguments of `train_intrinsic`, `train_classifier` or `train_causal`.
        history: the learning curves.

    Raises:
        OSError: the file cannot be written.
    """
    unseen = set(held_out)
    facts = {
        "settings": dict(settings),
        "data": {name: value for name, value in asdict(data.identity).items() if value is not None},
        "training_rows": len(data) - len(held_out),
        "training_ids": [name for row, name in enumerate(data.ids) if row not in unseen],
        "held_out_ids": [data.ids[row] for row in held_out],
        "versions": package_versions(),
        "history": asdict(history),
    }
    with replacing(path) as partial:
        partial.write_text(to_json(facts), encoding="utf-8")
