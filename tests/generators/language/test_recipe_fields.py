"""Descriptions of the fields of recipes: complete, with valid examples, equal to the page of the docs."""

from pathlib import Path
from typing import Annotated

import pytest
from pydantic import TypeAdapter

from candlelight.generators.language.recipe import Recipe
from candlelight.generators.language.recipe_fields import all_fields, describe_fields, fields_page
from tests.refusals import refused

PAGE = Path(__file__).parents[3] / "docs" / "recipe-fields.md"
FIELDS = {(model.__name__, path[-1]): field for path, model, field in all_fields(Recipe)}


@pytest.mark.parametrize("name", FIELDS, ids=".".join)
def test_every_field_has_a_description_and_a_valid_example(name):
    field = FIELDS[name]
    assert field.description.endswith(".")
    (example,) = field.examples
    kind = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    TypeAdapter(kind).validate_python(example)


def test_the_page_of_fields_is_up_to_date():
    command = "candlelight recipes fields --page > docs/recipe-fields.md"
    assert PAGE.read_text(encoding="utf-8") == fields_page(), f"run `{command}`"


def test_one_field_is_described_with_the_fields_below_it():
    text = describe_fields("lights")
    assert text.startswith("# sets.NAME.layout.lights\n")
    assert "# number or $name, in W; default 1000\n" in text
    assert "field_of_view" not in text
    assert describe_fields("sets.NAME.layout.camera.zoom") == describe_fields("zoom")


def test_a_field_of_several_models_is_described_for_each():
    text = describe_fields("unit")
    assert "# sets.NAME.factors.unit\n" in text
    assert text.count("unit: ") == 2


def test_an_unknown_field_is_answered_with_the_nearest():
    with refused(r"there is no field `light`; .*; did you mean `lights`"):
        describe_fields("light")
