"""Rendering to a URL: samples are written to a folder of this machine, copied from it, and removed.

What the local road does is done here with a folder that stands in for the one elsewhere: the submitting side
describes it there (`landing`), and the workers' children write there (`StoringChild`). A sample counts once all
of it is where the URL says, so a run can be killed at any moment here, too.
"""

import fcntl
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from generators.child import Job, Receipt, RenderChild
from generators.scene import SamplePlan
from loaders.checksums import SUMS
from loaders.errors import InputError
from loaders.frames import DATASET, frame_path, is_complete
from loaders.stores import Store, open_store

# The plan comes last: a run that was killed in between leaves it to the next to write them all.
_DESCRIPTION = (DATASET, SUMS, "plan.parquet")
_AHEAD = 4  # groups that a child may be ahead of what was copied, so that staging stays small
_PREFIX = f"candlelight-staging-{os.getuid()}-"
_LOCK = ".lock"


@dataclass(frozen=True)
class Landing:
    """A folder elsewhere, and the local one that stands in for it: what describes it, and logs of failures.

    ``there`` holds set and number of the samples that are complete.
    """

    store: Store
    folder: Path
    there: set[tuple[str, int]] = field(default_factory=set)

    def has(self, sample: SamplePlan) -> bool:
        """Tell whether a sample is complete there."""
        return (sample.set, sample.index) in self.there

    def count(self, group: Sequence[SamplePlan], receipt: Receipt) -> None:
        """Note which samples of a group have been copied."""
        self.there.update((one.set, one.index) for one in group if one.id in receipt.written)

    def publish(self, samples: Iterable[SamplePlan]) -> None:
        """Copy what describes the folder, where it has changed, and list which of some samples are there."""
        for name in _DESCRIPTION:
            file = self.folder / name
            if file.exists() and (data := file.read_bytes()) != self.store.read(name):
                self.store.write(name, data)
        thousands: dict[str, set[int]] = {}
        for sample in samples:
            thousands.setdefault(sample.set, set()).add(sample.index // 1000)
        for name, numbers in thousands.items():
            self.there.update((name, index) for index in self.store.complete(name, numbers))

    def publish_logs(self) -> None:
        """Copy the logs of what failed, and remove those of samples that are there by now."""
        new = {path.name: path.read_bytes() for path in (self.folder / "failed").glob("*.log")}
        for name, data in new.items():
            self.store.write(f"failed/{name}", data)
        for name in set(self.store.names("failed")) - new.keys():
            set_name, _, number = name.removesuffix(".log").rpartition("-")
            if number.isdecimal() and (set_name, int(number)) in self.there:
                self.store.remove(f"failed/{name}")


@contextmanager
def landing(url: str) -> Iterator[Landing]:
    """Make the folder that stands in for the one at a URL, and fill it with what describes that.

    Raises:
        InputError: the URL cannot be read, or holds what is no folder of frames; messages that name the
            folder that stands in name the URL instead.
    """
    store = open_store(url)
    with staging() as folder:
        about = folder / "about"
        about.mkdir()
        for name in _DESCRIPTION:
            if (data := store.read(name)) is not None:
                (about / name).write_bytes(data)
        if not (about / DATASET).exists() and store.names():
            raise InputError(f"output folder {url}: expected an empty folder or one of frames; name another")
        try:
            yield Landing(store, about)
        except InputError as error:
            raise InputError(str(error).replace(str(about), url)) from None


@contextmanager
def staging() -> Iterator[Path]:
    """Make a folder for what is on its way; those that killed processes of this user left are removed.

    It lies where the system keeps temporary files, which the environment variable TMPDIR names.
    """
    place = Path(tempfile.gettempdir())
    for old in place.glob(_PREFIX + "*"):
        _remove_abandoned(old)
    # Named once it is locked, so that nobody takes it for abandoned.
    making = Path(tempfile.mkdtemp(prefix=".candlelight-"))
    handle = os.open(making / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    folder = making.rename(place / f"{_PREFIX}{making.name.rpartition('-')[2]}")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _remove_abandoned(folder: Path) -> None:
    with suppress(OSError):
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            return
        handle = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(handle)


class StoringChild(RenderChild):
    """A render child whose samples are copied to a store, each group while the next ones are rendered.

    A receipt is given once its group has been copied; ``written`` names every sample that was, whatever became
    of the group.
    """

    def __init__(self, job: Job) -> None:
        self._staging = staging()
        root = self._staging.__enter__() / "frames"
        super().__init__(replace(job, root=root))
        self._store = open_store(job.store)
        self._asked = job

    def render_all(self, groups: Sequence[Sequence[SamplePlan]]) -> Iterator[Receipt]:
        """Have trace groups rendered and copied; arguments and receipts are those of a `RenderChild`."""
        copied: deque[Future[Receipt]] = deque()
        with ThreadPoolExecutor(1) as pool:
            for group, receipt in zip(groups, super().render_all(groups), strict=False):
                copied.append(pool.submit(self._copy, group, receipt))
                while len(copied) > _AHEAD:
                    yield copied.popleft().result()
            while copied:
                yield copied.popleft().result()

    def _copy(self, group: Sequence[SamplePlan], receipt: Receipt) -> Receipt:
        root = self.job.root
        whole = [sample for sample in group if is_complete(root, sample.set, sample.index)]
        folders = [frame_path(root, sample.set, sample.index) for sample in whole]
        try:
            self._store.put_samples(root, folders)
        except InputError as error:
            return replace(receipt, written=(), error=str(error), fatal=True)
        for folder in folders:
            shutil.rmtree(folder)
        return replace(receipt, written=tuple(sample.id for sample in whole))
