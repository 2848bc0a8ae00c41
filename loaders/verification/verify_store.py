"""Check a folder of frames at a URL for changed bytes and missing samples."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from candlelight.loaders.errors import InputError
from candlelight.loaders.files.object_stores import Store
from candlelight.loaders.frames import DATASET
from candlelight.loaders.verification.checksums import NEXT_SUMS, SUMS, parse_sums
from candlelight.loaders.verification.verify_frames import (
    CODE_FOLDER,
    DESCRIPTION,
    Damage,
    Findings,
    SampleFolder,
    check_description,
    check_sample,
    is_expected,
    sample_batches,
)

READERS = 8  # samples that are copied at a time; no more are on the local disk


def verify_store(store: Store, advance: Callable[[int], object] | None = None) -> Findings:
    """Check a folder of frames at a URL like `verify`; files are copied to the local disk, a few at a time.

    Args:
        store: the folder at a URL.
        advance: called with the number of checked samples, for a progress bar.

    Returns:
        Damaged files, missing samples and strangers, with paths relative to the folder.

    Raises:
        InputError: the folder holds no frames, or the store does not answer, or refuses.

    Example:
        >>> from candlelight.loaders.files.object_stores import open_store
        >>> verify_store(open_store("memory://nowhere"))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: memory://nowhere: expected a folder of frames, with \
dataset.json
    """
    names = store.names()
    if not {"samples", DATASET} & set(names):
        raise InputError(f"{store.name}: expected a folder of frames, with {DATASET}")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(READERS) as pool:
        root = Path(folder)
        listed = parse_sums(store.read(f"{CODE_FOLDER}/{SUMS}") or b"")
        code = (f"{CODE_FOLDER}/{name}" for name in (SUMS, *listed) if ".." not in Path(name).parts)
        for name in (*DESCRIPTION, SUMS, NEXT_SUMS, *code):
            if (data := store.read(name)) is not None:
                (root / name).parent.mkdir(exist_ok=True, parents=True)
                (root / name).write_bytes(data)
        damaged, info, planned = check_description(root)
        strangers = [root / name for name in names if not is_expected(root / name)]
        checked, unexplained = 0, list[str]()

        def check(place: SampleFolder) -> tuple[list[Damage], list[Path], str]:
            store.fetch(place.folder.relative_to(root).as_posix(), place.folder)
            found = check_sample(place, info)
            shutil.rmtree(place.folder)
            return found

        for part in _parts(store):
            _sketch(store, root / part, part)
            for places in sample_batches(root, planned, strangers):
                for wrong, extra, light in pool.map(check, places):
                    damaged += wrong
                    unexplained += filter(None, [light])
                    strangers += extra
                    checked += 1
                    if advance:
                        advance(1)
            shutil.rmtree(root / "samples")
    missing = [id for one in (planned or {}).values() for id in one.missing()]
    below = [Damage(d.folder.relative_to(root), d.path.relative_to(root), d.reason) for d in damaged]
    extras = dict.fromkeys(path.relative_to(root) for path in strangers)
    return Findings(checked, tuple(below), tuple(missing), tuple(extras), tuple(unexplained))


def _parts(store: Store) -> Iterator[str]:
    """Yield the folders of a thousand samples each."""
    for set_name in store.names("samples"):
        for name in store.names(f"samples/{set_name}"):
            yield f"samples/{set_name}/{name}"


def _sketch(store: Store, folder: Path, name: str) -> None:
    """Create an empty local folder for each name in a folder of the store."""
    folder.mkdir(parents=True)
    for child in store.names(name):
        (folder / child).mkdir()
