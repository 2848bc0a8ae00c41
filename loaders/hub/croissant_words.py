"""What a Croissant description says of responsible use (vocabulary RAI 1.0), from what is known of a pack."""

from collections.abc import Iterator, Mapping
from typing import Any

from loaders.hub.facts import SetFacts, count_values
from loaders.licences import is_known
from loaders.schema import DatasetInfo, SetInfo


def about(info: DatasetInfo, facts: Mapping[str, SetFacts]) -> dict[str, Any]:
    """Fill the fields of the vocabulary.

    Args:
        info: the image sets.
        facts: what the files of each image set hold.

    Returns:
        Croissant properties whose names begin with ``rai:``.
    """
    return {
        "rai:hasSyntheticData": True,
        "rai:dataCollection": "Nothing was photographed or collected: every sample was rendered, and its "
        f"factors, geometry and light are those of recipe {info.recipe.name}.",
        "rai:dataCollectionType": "Software Collection",
        "rai:dataAnnotationProtocol": "Labels and layers are what the renderer was told or computed; nobody "
        "labelled anything.",
        "rai:machineAnnotationTools": f"candlelight {info.candlelight}",
        "rai:dataLimitations": [
            "Rendered scenes of few objects: what holds of them need not hold of photographs.",
            *_noise(facts),
        ],
        "rai:dataBiases": [
            "Values of factors are as frequent as the recipe draws them, which is not how frequent they are "
            "anywhere else.",
            *(text for name, one in info.sets.items() for text in _frequencies(name, one, facts[name])),
        ],
        "rai:personalSensitiveInformation": _persons(info),
        "rai:dataUseCases": [
            "Training and testing of intrinsic image decomposition, of representations of known factors, and "
            "of how models respond to a change of one factor.",
            "Not established: any use that takes a result on these pictures for one on photographs.",
        ],
        "rai:dataSocialImpact": "No harm to persons is known to follow from these pictures of objects. A "
        "claim about a model that rests on them alone may mislead those who rely on it elsewhere.",
        "rai:dataReleaseMaintenancePlan": "The version changes with the content; the same recipe, seed and "
        "versions render the same samples again.",
    }


def _noise(facts: Mapping[str, SetFacts]) -> Iterator[str]:
    for name, one in facts.items():
        made = one.first.renderer
        if made is not None and made.blender is not None:
            yield (
                f"Set {name}: light is traced with {made.samples} samples per pixel (first sample; denoiser: "
                f"{made.denoiser}), so that layers of light hold what noise and denoising leave."
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


def _persons(info: DatasetInfo) -> str:
    if info.assets is None or not all(is_known(asset.licence) for asset in info.assets):
        return (
            "No data about persons was collected. What assets show was not examined: some are not recorded, "
            "or come from where nothing is known of them."
        )
    return "No data about persons was collected; the pictures show the assets that they are derived from."
