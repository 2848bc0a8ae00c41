"""Find the control of each concept set: images of the same scene in which the concept does not change."""

from collections.abc import Mapping, Sequence

from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import FactorValue
from candlelight.loaders.views.view_items import ConceptSet


def match_controls(concepts: Sequence[ConceptSet], controls: Sequence[ConceptSet]) -> tuple[ConceptSet, ...]:
    """Return the control of each concept set: the control set that agrees in all factors that both sets fix.

    Sets of albedo and their controls of the recipe `concepts-controls` agree in scene, texturing, light and
    temperature; sets of illumination and theirs in scene, texturing, material and temperature; both and the
    negatives in scene and texturing.

    Args:
        concepts: concept sets, as ``sets`` of `open_concepts`.
        controls: control sets, of the same or other data; they may be of more scenes.

    Returns:
        A control set for each concept set, in order, with rows of the view of the controls.

    Raises:
        InputError: a concept set has no factor in common with the controls, no control, or several.

    Example:
        >>> painted = ConceptSet({"scene": "cube", "light_azimuth": -20}, rows=(0, 1))
        >>> moved = ConceptSet({"scene": "cube", "light_azimuth": -20, "material": 0}, rows=(0, 1))
        >>> other = ConceptSet({"scene": "cube", "light_azimuth": 20, "material": 0}, rows=(2, 3))
        >>> match_controls([painted], [other, moved]) == (moved,)
        True
    """
    return tuple(_match(one.fixed, controls) for one in concepts)


def _match(fixed: Mapping[str, FactorValue], controls: Sequence[ConceptSet]) -> ConceptSet:
    found = []
    for control in controls:
        shared = fixed.keys() & control.fixed.keys()
        if shared and all(fixed[name] == control.fixed[name] for name in shared):
            found.append(control)
    if len(found) != 1:
        values = ", ".join(f"{name}={value}" for name, value in fixed.items())
        raise InputError(
            f"expected one control of the concept set with {values}, got {len(found)} of {len(controls)} "
            "sets; render controls with the same values of these factors"
        )
    return found[0]
