"""Each concept set finds the controls that agree in all factors that both fix."""

import itertools

import pytest

from candlelight.evaluation.views import ConceptSet, match_controls
from candlelight.loaders.errors import InputError

SCENES = ("cube", "vase")
TEMPERATURES = (2500, 4500)


def sets(**values):
    """Make a set for every combination of values, each with two rows."""
    combinations = enumerate(itertools.product(*values.values()))
    return [
        ConceptSet(dict(zip(values, one, strict=True)), rows=(2 * i, 2 * i + 1)) for i, one in combinations
    ]


ALBEDO = sets(scene=SCENES, light_azimuth=(-20, 20), temperature=TEMPERATURES)
ILLUMINATION = sets(scene=SCENES, material=(0, 1, 2), temperature=TEMPERATURES)


@pytest.mark.parametrize(
    ("concepts", "controls", "shared"),
    [
        (
            ALBEDO,
            sets(scene=SCENES[::-1], light_azimuth=(-20, 20), temperature=TEMPERATURES, material=(0, 4)),
            ("scene", "light_azimuth", "temperature"),
        ),
        (
            ILLUMINATION,
            sets(scene=SCENES, material=(0, 1, 2), temperature=TEMPERATURES, light_azimuth=(-22,)),
            ("scene", "material", "temperature"),
        ),
        (ILLUMINATION, sets(scene=("torus", *SCENES), texturing=("rgb",)), ("scene",)),
    ],
    ids=["albedo", "illumination", "negatives"],
)
def test_controls_have_the_values_of_their_sets(concepts, controls, shared):
    matched = match_controls(concepts, controls)
    assert len(matched) == len(concepts)
    for concept, some in zip(concepts, matched, strict=True):
        alike = [one for one in controls if all(concept.fixed[name] == one.fixed[name] for name in shared)]
        assert list(some) == alike


@pytest.mark.parametrize(
    "controls",
    [[], sets(scene=("torus",), material=(0,)), sets(object=("cube",))],
    ids=["none", "other scene", "no factor in common"],
)
def test_a_set_without_controls_is_refused(controls):
    message = (
        r"expected a control of the concept set with scene=cube, light_azimuth=-20, temperature=2500, "
        rf"got none of {len(controls)} sets; render controls with the same values of these factors"
    )
    with pytest.raises(InputError, match=message):
        match_controls(ALBEDO, controls)
