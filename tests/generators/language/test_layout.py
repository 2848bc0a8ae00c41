import pytest
from pydantic import ValidationError

from candlelight.generators.language.field_types import references, substitute
from candlelight.generators.language.layout import ObjectSpec, Scatter, SceneLayout
from candlelight.generators.language.lights_and_camera import CameraSpec, LightSpec

CAMERA = CameraSpec(location=(0, "$y", 1), look_at=(0, 0, "$z"))
LIGHT = LightSpec(power="$watts")
SCATTER = {"count": 2, "types": ("cube",), "size": (0.5, 1), "region": (-1, 1, -2, 2)}


def test_references_are_found_at_every_depth():
    objects = {"choose": "$which", "among": {"a": (ObjectSpec(type="$kind"),)}}
    layout = SceneLayout(camera=CAMERA, lights=(LIGHT,), objects=objects)
    assert set(references(layout)) == {"y", "z", "watts", "which", "kind"}
    assert list(references(ObjectSpec(type="cube"))) == []


def test_substitution_fills_tuples_and_keeps_other_values():
    values = {"a": 1.5, "b": "red"}
    assert substitute(("$a", 2.0, ("$b", "$$")), {**values, "$": 0}.__getitem__) == (1.5, 2.0, ("red", 0))
    assert substitute(None, values.__getitem__) is None
    with pytest.raises(KeyError):
        substitute("$c", values.__getitem__)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"region": (1, -1, 0, 1)}, "region: expected x low <= x high"),
        ({"region": (-1, 1, 2, 1)}, "region: expected x low <= x high and y low <= y high"),
        ({"size": (1, 0.5)}, "size: expected 0 < low <= high"),
        ({"size": (0, 0.5)}, "size: expected 0 < low <= high"),
        ({"types": ()}, "at least 1 item"),
        ({"gap": -1}, "greater than or equal to 0"),
    ],
)
def test_scatter_refuses_impossible_numbers(changes, message):
    Scatter(**SCATTER)
    with pytest.raises(ValidationError, match=message):
        Scatter(**{**SCATTER, **changes})


def test_objects_are_listed_or_scattered_not_both():
    cube, lights = (ObjectSpec(type="cube"),), (LIGHT,)
    SceneLayout(camera=CAMERA, lights=lights)
    with pytest.raises(ValidationError, match="expected `objects` or `scatter`, got both"):
        SceneLayout(camera=CAMERA, lights=lights, objects=cube, scatter=Scatter(**SCATTER))
