"""Write image sets as a Hugging Face data set: a folder of Parquet files that can be uploaded unchanged.

The folder holds ``<set>/<split>-00000-of-0000N.parquet`` (one configuration per image set), ``README.md``
(the card), ``dataset.json``, ``manifest.json`` (rows, bytes and SHA-256 of each Parquet file) and
``SHA256SUMS``.
"""

from collections.abc import Collection
from datetime import UTC, date, datetime
from pathlib import Path

from candlelight.loaders.errors import InputError
from candlelight.loaders.files.safe_writing import sync
from candlelight.loaders.frames import DATASET
from candlelight.loaders.packs.pack_manifest import (
    CARD,
    CROISSANT,
    PACK_MANIFEST,
    PackManifest,
    SplitRecord,
    pack_files,
    picture_path,
    read_pack_manifest,
)
from candlelight.loaders.packs.pack_source import PackSource, open_sources, packed_info
from candlelight.loaders.packs.split_plan import SplitPlan
from candlelight.loaders.packs.working_folder import open_working_folder, replace_folder
from candlelight.loaders.schema import DatasetInfo
from candlelight.loaders.verification.checksums import SUMS, file_sha256, sums_text


def pack_hub(
    root: Path | str,
    out_dir: Path | str,
    sets: Collection[str] | None = None,
    *,
    layers: Collection[str] | None = None,
    size: tuple[int, int] | None = None,
    plan: SplitPlan | None = None,
    threads: int | None = None,
) -> Path:
    """Write the complete samples of a folder of frames as a Hugging Face data set.

    Every frame is compared with its hashes. The folder is built in ``.<name>.partial`` next to ``out_dir``
    and renamed when it is complete; a pack of an earlier call is replaced. The next call removes what a
    killed call left there.

    Args:
        root: folder of frames.
        out_dir: folder to write.
        sets: names of the sets; None for all.
        layers: names of the layers; None for all.
        size: width and height to average down to, in pixels; None for the size of the frames.
        plan: splits of each set; None for `train` alone.
        threads: number of threads that read and check frames; None for one per processor.

    Returns:
        ``out_dir``, which `HubFrames` and `datasets.load_dataset(out_dir, set, split="train")` read.

    Raises:
        InputError: a set or layer is unknown, a set has no complete sample or does not fit ``plan`` or
            ``size``, a frame is damaged, ``out_dir`` holds other files than a pack, or another process is
            packing into it.
    """
    from candlelight.loaders.hub.shards import write_shards

    root, out_dir = Path(root), Path(out_dir)
    sources = open_sources(root, sets, layers, size, plan)
    info = packed_info(sources, only=True)
    final = out_dir.resolve()
    parts = [(source, split) for source in sources for split in source.splits]
    with open_working_folder(final) as folder:
        _refuse_foreign(final)
        whole = folder / "whole"
        shards = [shard for part in parts for shard in write_shards(*part, whole, threads)]
        manifest = PackManifest(files=tuple(shards), splits=_splits(sources))
        _describe(whole, info, manifest, _day_made(root))
        for path in whole.rglob("*"):
            sync(path)
        sync(whole)
        replace_folder(whole, final)
    return out_dir


def _splits(sources: Collection[PackSource]) -> dict[str, dict[str, SplitRecord]]:
    return {
        source.set_name: {s.name: SplitRecord(rows=len(s.rows), made=s.made) for s in source.splits}
        for source in sources
    }


def _day_made(root: Path) -> date:
    """Return the day (UTC) of a folder's ``dataset.json``, which does not depend on the day of packing."""
    return datetime.fromtimestamp((root / DATASET).stat().st_mtime, UTC).date()


def _describe(folder: Path, info: DatasetInfo, manifest: PackManifest, made: date) -> None:
    """Write the files that describe the Parquet files: pictures, card, Croissant, hashes."""
    from candlelight.loaders.hub.card import card
    from candlelight.loaders.hub.card_pictures import PackedRows, draw_picture
    from candlelight.loaders.hub.croissant import croissant
    from candlelight.loaders.hub.set_facts import read_facts

    facts = {}
    for name, set_info in info.sets.items():
        shards, picture = manifest.of_set(name), folder / picture_path(name)
        facts[name] = read_facts(folder, set_info, shards, picture_path(name))
        picture.parent.mkdir(exist_ok=True)
        picture.write_bytes(draw_picture(PackedRows(folder, set_info, shards, facts[name].table)))
    texts = {
        DATASET: info.to_json(),
        PACK_MANIFEST: manifest.to_json(),
        CARD: card(info, manifest, facts),
        CROISSANT: croissant(info, manifest, facts, made),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    hashes = {shard.path: shard.sha256 for shard in manifest.files}
    hashes |= {name: file_sha256(folder / name) for name in (*texts, *map(picture_path, facts))}
    (folder / SUMS).write_text(sums_text(hashes), encoding="utf-8")


def _refuse_foreign(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder that is new or empty")
    files = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    found = {path.relative_to(folder).as_posix() for path in files}
    ours = pack_files(read_pack_manifest(folder).files) if PACK_MANIFEST in found else set()
    if foreign := sorted(found - ours):
        raise InputError(
            f"{folder} holds `{foreign[0]}`, which `candlelight pack` did not write; name a folder that is "
            "new, empty, or made by `candlelight pack`"
        )
