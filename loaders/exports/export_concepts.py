"""Write concept sets in the folders that the CSM paper's code reads: one folder of images for each set."""

import re
from functools import partial
from pathlib import Path

from candlelight.loaders.errors import InputError
from candlelight.loaders.exports.export_loop import (
    ExportCounts,
    ExportFiles,
    ExportUnit,
    fitting_sets,
    write_export,
)
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import IMAGE, read_dataset_info
from candlelight.loaders.schema import FactorValue, SetInfo

_FOLDER = "IID_data/concepts"
_ALBEDO, _ILLUMINATION = "material", "light_azimuth"  # the factor that varies inside a concept set
_FACTORS = {"scene", "texturing", "temperature", _ALBEDO, _ILLUMINATION}


def export_concepts(frames: Path | str, out: Path | str, set_name: str | None = None) -> ExportCounts:
    """Write the complete samples of concept sets in the folders that the paper's code reads.

    Gupta, Saini and Narayanan, ICVGIP 2022; folder names follow the lists in their later code. Images lie in
    ``OUT/IID_data/concepts/<concept>/``, numbered by the value of the factor that varies. Every image is
    compared with its hash. A second call skips the images that exist, and writes the others.

    Args:
        frames: folder of frames; only sets in which a material or a light varies are written.
        out: folder to write: new, or started by the same export.
        set_name: the image set; None for all.

    Returns:
        How many samples were written now, and how many were found.

    Raises:
        InputError: there is no such set, a scene's name cannot name a folder, two samples get one name, a
            frame is damaged, or the folder holds something else.

    Example:
        >>> export_concepts(Path("frames"), Path("csm")).written  # doctest: +SKIP
        44
    """
    frames = Path(frames)
    wanted = (
        f"the factors {', '.join(sorted(_FACTORS))} of which `material` or `light_azimuth` varies, as in the "
        "recipe `concepts`"
    )
    units: dict[str, ExportUnit] = {}
    owners: dict[str, str] = {}
    for name in fitting_sets(frames, set_name, _is_concept_set, wanted):
        opened = FrameFolder(frames, name, layers=("image",))
        for row in range(len(opened)):
            metadata = opened.metadata(row)
            target = _image_name(opened.set_info, metadata.factors)
            if target in units:
                raise InputError(
                    f"samples `{owners[target]}` and `{metadata.id}` would both be {target}; name one set, "
                    "in which no factors vary but those of the recipe `concepts`"
                )
            owners[target] = metadata.id
            file = f"{_FOLDER}/{target}"
            units[target] = ExportUnit(file, partial(_image_file, opened, row, file))
    return write_export(
        Path(out), units.values(), to="concepts", recipe=read_dataset_info(frames).recipe.sha256
    )


def _image_file(frames: FrameFolder, row: int, file: str) -> ExportFiles:
    frames.frame(row, verify=True)
    return {file: (frames.path(row) / IMAGE).read_bytes()}


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


def _image_name(set_info: SetInfo, factors: dict[str, FactorValue]) -> str:
    number = _position(set_info, factors, set_info.varies[0])
    return f"{concept_name(set_info, factors)}/{number:03d}.png"


def _position(set_info: SetInfo, factors: dict[str, FactorValue], name: str) -> int:
    """Return the position of a factor's value in the set's list of values."""
    values = set_info.factor(name).values
    if values is None:
        raise InputError(f"factor `{name}`: expected listed values, got a range")
    return values.index(factors[name])
