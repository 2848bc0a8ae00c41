"""Fixtures: views in memory with the members of `loaders.views`, and fewer resamples for intervals."""

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import pytest
from torch import Tensor

from evaluation.results.resampled_intervals import resampled_interval
from loaders.views import DataIdentity, DecomposedImage


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch) -> None:
    """Compute intervals of statistics from 40 resamples; test_intervals.py tests them with thousands."""
    few = functools.partial(resampled_interval, resamples=40)
    # `evaluation.concepts.score_concepts` is the function as an attribute, but the module as an import.
    for module in (
        "evaluation.concepts.score_concepts",
        "evaluation.coverage.score_coverage",
        "evaluation.intrinsic.score_judgements",
        "evaluation.protocols.score_rules",
    ):
        monkeypatch.setattr(import_module(module), "resampled_interval", few)
    monkeypatch.setattr(import_module("evaluation.causal.score_causal"), "IRS_RESAMPLES", 40)


class MemoryView:
    """A view of a list of items, with further members."""

    def __init__(self, items: Sequence[Any], groups: Sequence[str] | None, name: str, **members: Any) -> None:
        self.items = list(items)
        self.identity = DataIdentity(name, "memory")
        self.ids = tuple(f"{name}-{row}" for row in range(len(self.items)))
        self.groups = self.ids if groups is None else tuple(groups)
        self.known_ids = frozenset(self.ids)
        for member, value in members.items():
            setattr(self, member, value)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, row: int) -> Any:
        return self.items[row]


@pytest.fixture
def memory_view() -> Callable[..., MemoryView]:
    """Make a view of items: name, groups, and further members such as ``sets`` or ``factors``."""

    def make(items: Sequence[Any], groups: Sequence[str] | None = None, name: str = "row", **members: Any):
        return MemoryView(items, groups, name, **members)

    return make


@pytest.fixture
def decompositions(memory_view) -> Callable[..., MemoryView]:
    """Make a view of stacked reflectance and shading; the image is their product."""

    def make(
        reflectance: Tensor, shading: Tensor, groups: Sequence[str] | None = None, name: str = "row"
    ) -> MemoryView:
        items = [
            DecomposedImage(r.float() * s.float(), r.float(), s.float(), (r > 0).any(0))
            for r, s in zip(reflectance, shading, strict=True)
        ]
        return memory_view(items, groups, name, explains="image")

    return make
