"""Frames as the authors of the CSM paper keep their concept sets: a folder of images for each set."""

import re
from pathlib import Path

from loaders.errors import InputError
from loaders.exports.export_folder import claim
from loaders.files.atomic_files import replacing
from loaders.frame_folder import FrameFolder
from loaders.frames import IMAGE, read_dataset_info
from loaders.schema import FactorValue, SetInfo

FOLDER = Path("IID_data") / "concepts"
ALBEDO, ILLUMINATION = "material", "light_azimuth"  # the factor that varies inside a concept set
_FACTORS = {"scene", "texturing", "temperature", ALBEDO, ILLUMINATION}


def export_concepts(frames: Path | str, out: Path | str, set_name: str | None = None) -> dict[str, int]:
    """Write the complete samples of concept sets in the folders that the paper's code reads.

    Gupta, Saini and Narayanan, ICVGIP 2022; the names are those that their later code lists. Images lie in
    ``OUT/IID_data/concepts/<concept>/``, numbered by what varies. Every picture is compared with its hash. An
    export that was stopped goes on where it was.

    Args:
        frames: folder of frames; of its sets those are written in which a material or a light varies.
        out: folder to write, new or one that the same export was started in.
        set_name: the image set; None for all.

    Returns:
        Concept to the number of its images, those that were there among them.

    Raises:
        InputError: no such set, a scene whose name does not do for a folder, two samples of one name, a
            damaged frame, or a folder that holds something else.

    Example:
        >>> export_concepts(Path("frames"), Path("csm"))["suzanne_mat0temp2500"]  # doctest: +SKIP
        44
    """
    frames, out = Path(frames), Path(out)
    info = read_dataset_info(frames)
    asked = info.sets if set_name is None else {set_name: info.set(set_name)}
    names = [name for name, one in asked.items() if is_concept_set(one)]
    if not names:
        raise InputError(
            f"{frames}: expected a set with the factors {', '.join(sorted(_FACTORS))} of which `material` or "
            f"`light_azimuth` varies, as of the recipe `concepts`; got {', '.join(asked)}"
        )
    claim(out, to="concepts", recipe=info.recipe.sha256)
    counts: dict[str, int] = {}
    owners: dict[Path, str] = {}
    for name in names:
        opened = FrameFolder(frames, name, layers=("image",))
        for row in range(len(opened)):
            metadata = opened.metadata(row)
            concept = concept_name(opened.set_info, metadata.factors)
            number = _position(opened.set_info, metadata.factors, opened.set_info.varies[0])
            target = out / FOLDER / concept / f"{number:03d}.png"
            if (owner := owners.setdefault(target, metadata.id)) != metadata.id:
                raise InputError(
                    f"samples `{owner}` and `{metadata.id}` would both be {concept}/{target.name}; name one "
                    "set, in which no other factors vary than in those of the recipe `concepts`"
                )
            if not target.exists():
                _copy_picture(opened, row, target)
            counts[concept] = counts.get(concept, 0) + 1
    return counts


def _copy_picture(frames: FrameFolder, row: int, target: Path) -> None:
    frames.frame(row, verify=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as partial:
        partial.write_bytes((frames.path(row) / IMAGE).read_bytes())


def is_concept_set(set_info: SetInfo) -> bool:
    """Say whether a set has the factors of the paper's, with one of the two that vary."""
    named = {factor.name for factor in set_info.factors}
    return named >= _FACTORS and set_info.varies in ((ALBEDO,), (ILLUMINATION,))


def concept_name(set_info: SetInfo, factors: dict[str, FactorValue]) -> str:
    """Name the concept set of a sample: ``<scene>[tex_]light<L>temp<K>`` or ``<scene>_[tex_]mat<M>temp<K>``.

    L is the position of the light among the set's, M the number of the material, K the temperature in kelvin.

    Args:
        set_info: the image set; what varies in it decides between the two forms.
        factors: those of the sample.

    Raises:
        InputError: the scene's name does not do for a folder.
    """
    scene = str(factors["scene"])
    if not re.fullmatch(r"\w[\w -]*", scene):
        raise InputError(f"scene `{scene}`: expected letters, digits, `_`, `-` and spaces, to name a folder")
    textured = "tex_" if factors["texturing"] == "textured" else ""
    for name in ("temperature", "material"):
        if not re.fullmatch(r"[\w.-]+", str(factors[name])):
            raise InputError(f"{name} `{factors[name]}`: expected a number or a name, to name a folder")
    temperature = f"temp{factors['temperature']}"
    if set_info.varies == (ALBEDO,):
        return f"{scene}{textured}light{_position(set_info, factors, ILLUMINATION)}{temperature}"
    return f"{scene}_{textured}mat{factors['material']}{temperature}"


def _position(set_info: SetInfo, factors: dict[str, FactorValue], name: str) -> int:
    """Return the position of a factor's value among those of the set."""
    values = set_info.factor(name).values
    if values is None:
        raise InputError(f"factor `{name}`: expected listed values, got a range")
    return values.index(factors[name])
