"""Responsible-use fields of a Croissant description (vocabulary RAI 1.0).

Facts about rendering are always written; judgements only if the author of the recipe states them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from loaders.hub.set_facts import SetFacts, count_values
from loaders.schema import DatasetInfo, SetInfo


def rai_fields(info: DatasetInfo, facts: Mapping[str, SetFacts]) -> dict[str, Any]:
    """Return the fields of the vocabulary.

    Args:
        info: description of the packed image sets.
        facts: facts of each image set, read from its files.

    Returns:
        Croissant properties whose names begin with ``rai:``.
    """
    said = info.statements
    stated = {
        "rai:personalSensitiveInformation": said.personal_information,
        "rai:dataUseCases": said.use_cases,
        "rai:dataSocialImpact": said.social_impact,
        "rai:dataReleaseMaintenancePlan": said.maintenance,
    }
    return {
        "rai:hasSyntheticData": True,
        "rai:dataCollection": "Nothing was photographed or collected: every sample was rendered, and its "
        f"factors, geometry and light are those of recipe {info.recipe.name}.",
        "rai:dataCollectionType": "Software Collection",
        "rai:dataAnnotationProtocol": "Labels and layers are inputs or results of the renderer; nobody "
        "labelled anything.",
        "rai:machineAnnotationTools": f"candlelight {info.candlelight}",
        "rai:dataLimitations": [*filter(None, [info.statements.limitations]), *_noise(facts)],
        "rai:dataBiases": [
            "The recipe sets the frequencies of factor values; other data have other frequencies.",
            *(text for name, one in info.sets.items() for text in _frequencies(name, one, facts[name])),
        ],
        **{name: text for name, text in stated.items() if text},
    }


def _noise(facts: Mapping[str, SetFacts]) -> Iterator[str]:
    for name, one in facts.items():
        made = one.first.renderer
        if made is not None and made.blender is not None:
            yield (
                f"Set {name}: light is traced with {made.samples} samples per pixel (first sample; denoiser: "
                f"{made.denoiser}), so layers of light contain residual noise and errors of the denoiser."
            )


def _frequencies(name: str, set_info: SetInfo, facts: SetFacts) -> Iterator[str]:
    for factor, column in zip(set_info.factors, facts.table.T, strict=True):
        if factor.kind == "categorical":
            counts = count_values(factor, column)
            pairs = zip(factor.values or (), counts, strict=True)
            found = ", ".join(f"{value} {count}" for value, count in pairs)
        else:
            found = f"{column.min():.4g} to {column.max():.4g} {factor.unit}".rstrip()
        yield f"Set {name}, factor {factor.name}: {found}."
