from collections.abc import Callable, Collection

import pytest

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.language.recipe import Recipe
from candlelight.generators.planning.sample_values import SampleValues, sample_values


@pytest.fixture(scope="module")
def load(tmp_path_factory) -> Callable[..., Recipe]:
    """Load a recipe from its text, with overrides."""
    path = tmp_path_factory.mktemp("recipes") / "trial.yaml"

    def read(text: str, *overrides: str) -> Recipe:
        path.write_text(text)
        return load_recipe(path, overrides)

    return read


@pytest.fixture(scope="session")
def rows() -> Callable[..., list[SampleValues]]:
    """Draw the values of the samples of set `s`, or of some of its units."""

    def draw(recipe: Recipe, only: Collection[int] | None = None) -> list[SampleValues]:
        return list(sample_values(recipe, "s", AssetLibrary(), only))

    return draw
