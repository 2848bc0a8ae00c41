"""Manifests: facts of the assets of a folder, known without opening their files in Blender.

A manifest is ``{"schema": 1, "assets": [entry, ...]}``. The shipped library has one. `candlelight assets add`
and `candlelight assets scan` write one into a folder of the user.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from candlelight.loaders.errors import InputError
from candlelight.loaders.files.safe_writing import replacing
from candlelight.loaders.verification.checksums import file_sha256

ASSET_MANIFEST = "manifest.json"
_REMEDY = "write it again with `candlelight assets scan FOLDER`, or remove it"

_Triple = tuple[float, float, float]
_Length = Annotated[float, Field(gt=0)]
_Share = Annotated[float, Field(ge=0)]


class SceneCamera(BaseModel):
    """Camera of a scene: location, the point that it looks at, horizontal field of view in degrees."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    location: _Triple
    look_at: _Triple
    field_of_view: Annotated[float, Field(gt=0, lt=180)]


class PartFacts(BaseModel):
    """One part of an object: the name of its material slot, and its colour if the recipe gives none.

    ``attached_to`` names the part without which this one is absent, too.
    """

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    name: Annotated[str, Field(min_length=1)]
    color: tuple[_Share, _Share, _Share]
    attached_to: str | None = None


class AssetFacts(BaseModel):
    """Facts of an asset; the fields depend on its kind, and other fields are allowed.

    Objects: ``dimensions`` in metres at size 1; ``footprint``, the radius in metres of the circle about the
    origin that contains the object seen from above; ``parts``. Lights: ``location``, ``power`` in W,
    ``radius`` in metres, ``color``. Scenes: ``rotation`` in degrees, clockwise seen from above, ``strength``,
    ``modelled`` (false for an environment map), ``camera``. Materials: ``base_color``. Colours are linear
    Rec.709.
    """

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    dimensions: tuple[_Share, _Share, _Share] | None = None
    footprint: _Length | None = None
    location: _Triple | None = None
    power: _Length | None = None
    radius: _Share | None = None
    color: tuple[_Share, _Share, _Share] | None = None
    rotation: float | None = None
    strength: _Share | None = None
    modelled: bool | None = None
    camera: SceneCamera | None = None
    base_color: tuple[_Share, _Share, _Share] | None = None
    parts: Annotated[list[PartFacts], Field(min_length=1, max_length=255)] | None = None

    @field_validator("parts")
    @classmethod
    def _attached_to_parts(cls, parts: list[PartFacts] | None) -> list[PartFacts] | None:
        names = {part.name for part in parts or ()}
        for part in parts or ():
            if part.attached_to not in (None, *names):
                raise ValueError(f"part `{part.name}` is attached to `{part.attached_to}`, which is no part")
        return parts


class AssetEntry(BaseModel):
    """One asset of a manifest; ``sha256`` is the hash of its file."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    kind: str
    name: Annotated[str, Field(min_length=1)]
    file: str
    licence: str
    source: str
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    facts: AssetFacts


class _Manifest(BaseModel):
    schema_version: Annotated[Literal[1], Field(alias="schema")]
    assets: list[AssetEntry]


def read_asset_manifest(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Read a manifest and check its form.

    Args:
        path: the file.

    Returns:
        The entries of the file by (kind, label).

    Raises:
        InputError: the file cannot be read, or is not a manifest; the message names the field.
    """
    try:
        data = json.loads(path.read_bytes())
        _Manifest.model_validate(data)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; {_REMEDY}") from None
    except ValidationError as error:
        worst = error.errors(include_url=False)[0]
        place = ".".join(map(str, worst["loc"])) or "manifest"
        raise InputError(f"{path}: {place}: {worst['msg']}, got {worst['input']!r:.60}; {_REMEDY}") from None
    except ValueError as error:
        raise InputError(f"{path}: expected JSON, got something else ({error}); {_REMEDY}") from None
    return {(entry["kind"], entry["name"]): entry for entry in data["assets"]}


def manifest_entry(
    kind: str,
    file: Path,
    root: Path,
    *,
    licence: str,
    source: str,
    blender: str,
    facts: dict[str, Any],
) -> dict[str, Any]:
    """Make the entry of a file.

    Args:
        kind: kind of the asset.
        file: file of the asset; its name is the label.
        root: folder of the manifest.
        licence: licence of the asset.
        source: origin of the asset.
        blender: version of Blender that wrote or read the file.
        facts: facts in the form of `AssetFacts`.
    """
    return {
        "kind": kind,
        "name": file.stem,
        "file": file.relative_to(root).as_posix(),
        "licence": licence,
        "source": source,
        "blender": blender,
        "sha256": file_sha256(file),
        "facts": facts,
    }


def write_asset_manifest(path: Path, entries: Iterable[dict[str, Any]]) -> None:
    """Write a manifest atomically.

    Args:
        path: the file; an existing file is replaced.
        entries: the assets, in order.
    """
    text = json.dumps({"schema": 1, "assets": list(entries)}, indent=1) + "\n"
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
