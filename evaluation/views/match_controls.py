"""Find the control of each concept set: images of the same scene in which the concept does not change."""

from collections.abc import Mapping, Sequence

from candlelight.evaluation.views.view_items import ConceptSet
from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import FactorValue


def match_controls(
    concepts: Sequence[ConceptSet], controls: Sequence[ConceptSet]
) -> tuple[tuple[ConceptSet, ...], ...]:
    """Return the controls of each concept set: the control sets that agree in all factors that both sets fix.

    Sets of albedo and their controls of the recipe `concepts-controls` agree in scene, texturing, light and
    temperature, and there is a control in each of several materials; sets of illumination and theirs agree in
    scene, texturing, material and temperature, and there is one under each of several lights; both and the
    negatives agree in scene and texturing.

    Args:
        concepts: concept sets, as ``sets`` of `open_concepts`.
        controls: control sets, of the same or other data; they may be of more scenes.

    Returns:
        The control sets of each concept set, at least one, in their order, with rows of the view of the
        controls.

    Raises:
        InputError: a concept set has no factor in common with the controls, or no control.

    Example:
        >>> painted = ConceptSet({"scene": "cube", "light_azimuth": -20}, rows=(0, 1))
        >>> moved = ConceptSet({"scene": "cube", "light_azimuth": -20, "material": 0}, rows=(0, 1))
        >>> other = ConceptSet({"scene": "cube", "light_azimuth": 20, "material": 0}, rows=(2, 3))
        >>> match_controls([painted], [other, moved]) == ((moved,),)
        True
    """
    return tuple(_match(one.fixed, controls) for one in concepts)


def _match(fixed: Mapping[str, FactorValue], controls: Sequence[ConceptSet]) -> tuple[ConceptSet, ...]:
    found = []
    for control in controls:
        shared = fixed.keys() & control.fixed.keys()
        if shared and all(fixed[name] == control.fixed[name] for name in shared):
            found.append(control)
    if not found:
        values = ", ".join(f"{name}={value}" for name, value in fixed.items())
        raise InputError(
            f"expected a control of the concept set with {values}, got none of {len(controls)} sets; render "
            "controls with the same values of these factors"
        )
    return tuple(found)
