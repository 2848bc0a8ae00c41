"""Write concept sets in the folders that the CSM paper's code reads: one folder of images for each set."""

import re
from pathlib import Path

from candlelight.loaders.errors import InputError
from candlelight.loaders.exports.export_folder import open_export_folder
from candlelight.loaders.files.safe_writing import replacing
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import IMAGE, read_dataset_info
from candlelight.loaders.schema import FactorValue, SetInfo

_FOLDER = Path("IID_data") / "concepts"
_ALBEDO, _ILLUMINATION = "material", "light_azimuth"  # the factor that varies inside a concept set
_FACTORS = {"scene", "texturing", "temperature", _ALBEDO, _ILLUMINATION}


def export_concepts(frames: Path | str, out: Path | str, set_name: str | None = None) -> dict[str, int]:
    """Write the complete samples of concept sets in the folders that the paper's code reads.

    Gupta, Saini and Narayanan, ICVGIP 2022; folder names follow the lists in their later code. Images lie in
    ``OUT/IID_data/concepts/<concept>/``, numbered by the value of the factor that varies. Every image is
    compared with its hash. A second call skips the images that exist, and writes the others.

    Args:
        frames: folder of frames; only sets in which a material or a light varies are written.
        out: folder to write: new, or started by the same export.
        set_name: the image set; None for all.

    Returns:
        The number of images of each concept, including images that existed before.

    Raises:
        InputError: there is no such set, a scene's name cannot name a folder, two samples get one name, a
            frame is damaged, or the folder holds something else.

    Example:
        >>> export_concepts(Path("frames"), Path("csm"))["suzanne_mat0temp2500"]  # doctest: +SKIP
        44
    """
    frames, out = Path(frames), Path(out)
    info = read_dataset_info(frames)
    requested = info.sets if set_name is None else {set_name: info.set(set_name)}
    names = [name for name, one in requested.items() if _is_concept_set(one)]
    if not names:
        raise InputError(
            f"{frames}: expected a set with the factors {', '.join(sorted(_FACTORS))} of which `material` or "
            f"`light_azimuth` varies, as in the recipe `concepts`; got {', '.join(requested)}"
        )
    counts: dict[str, int] = {}
    owners: dict[Path, str] = {}
    with open_export_folder(out, to="concepts", recipe=info.recipe.sha256):
        for name in names:
            opened = FrameFolder(frames, name, layers=("image",))
            for row in range(len(opened)):
                metadata = opened.metadata(row)
                concept = concept_name(opened.set_info, metadata.factors)
                number = _position(opened.set_info, metadata.factors, opened.set_info.varies[0])
                target = out / _FOLDER / concept / f"{number:03d}.png"
                if (owner := owners.setdefault(target, metadata.id)) != metadata.id:
                    raise InputError(
                        f"samples `{owner}` and `{metadata.id}` would both be {concept}/{target.name}; name "
                        "one set, in which no factors vary but those of the recipe `concepts`"
                    )
                if not target.exists():
                    _copy_image(opened, row, target)
                counts[concept] = counts.get(concept, 0) + 1
    return counts


def _copy_image(frames: FrameFolder, row: int, target: Path) -> None:
    frames.frame(row, verify=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as partial:
        partial.write_bytes((frames.path(row) / IMAGE).read_bytes())


def _is_concept_set(set_info: SetInfo) -> bool:
    """Say whether a set has the paper's factors, and varies the material alone or the light alone."""
    named = {factor.name for factor in set_info.factors}
    return named >= _FACTORS and set_info.varies in ((_ALBEDO,), (_ILLUMINATION,))


def concept_name(set_info: SetInfo, factors: dict[str, FactorValue]) -> str:
    """Name the concept set of a sample: ``<scene>[tex_]light<L>temp<K>`` or ``<scene>_[tex_]mat<M>temp<K>``.

    L is the position of the light in the set, M the number of the material, K the temperature in kelvin.

    Args:
        set_info: the image set; its varying factor decides between the two forms.
        factors: factor values of the sample.

    Raises:
        InputError: the scene's name cannot name a folder.
    """
    scene = str(factors["scene"])
    if not re.fullmatch(r"\w[\w -]*", scene):
        raise InputError(f"scene `{scene}`: expected letters, digits, `_`, `-` and spaces, to name a folder")
    textured = "tex_" if factors["texturing"] == "textured" else ""
    for name in ("temperature", "material"):
        if not re.fullmatch(r"[\w.-]+", str(factors[name])):
            raise InputError(f"{name} `{factors[name]}`: expected a number or a name, to name a folder")
    temperature = f"temp{factors['temperature']}"
    if set_info.varies == (_ALBEDO,):
        return f"{scene}{textured}light{_position(set_info, factors, _ILLUMINATION)}{temperature}"
    return f"{scene}_{textured}mat{factors['material']}{temperature}"


def _position(set_info: SetInfo, factors: dict[str, FactorValue], name: str) -> int:
    """Return the position of a factor's value in the set's list of values."""
    values = set_info.factor(name).values
    if values is None:
        raise InputError(f"factor `{name}`: expected listed values, got a range")
    return values.index(factors[name])
