"""Rendering to a URL: samples are written to a folder of this machine, copied from it, and removed.

A folder of this machine stands in for the one elsewhere: the submitting side describes it there (`Landing`),
and the workers' children write to another of theirs (`StoringChild`). A sample counts once all of it is where
the URL says, so a run can be killed at any moment here, too.
"""

import atexit
import hashlib
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from tqdm import tqdm

from generators.engine import limits
from generators.engine.render_process import Job, Receipt, RenderChild
from generators.engine.repair import set_aside
from generators.engine.staging_folders import staging
from generators.planning.packed_samples import SampleKey
from generators.planning.plan import Plan
from generators.scenes.scene import SamplePlan
from loaders.errors import InputError
from loaders.files.object_stores import Store, open_store
from loaders.files.urls import is_elsewhere, local_folder, without_password
from loaders.frames import DATASET, METADATA, frame_path, is_complete
from loaders.verification.checksums import NEXT_SUMS, SUMS, find_changed_files
from loaders.verification.verify_frames import DESCRIPTION
from loaders.verification.verify_store import verify_store


@dataclass(frozen=True)
class Landing:
    """Where samples come to lie: a folder of this machine, or one elsewhere that it stands in for.

    ``before`` holds what described the one elsewhere, by file name, ``there`` set and number of the samples
    that are complete there.
    """

    folder: Path
    store: Store | None = None
    before: dict[str, bytes] = field(default_factory=dict)
    there: set[tuple[str, int]] = field(default_factory=set)

    @property
    def url(self) -> str:
        """The URL of a folder elsewhere, or nothing."""
        return self.store.url if self.store else ""

    def has(self, sample: SamplePlan | SampleKey) -> bool:
        """Tell whether a sample is complete."""
        if self.store is None:
            return is_complete(self.folder, sample.set, sample.index)
        return (sample.set, sample.index) in self.there

    def set_aside(self, plan: Plan) -> tuple[int, int]:
        """Check what is there, and have the damaged samples of a plan rendered again.

        Returns:
            How many samples those are, and how many are damaged besides, which the plan does not hold.
        """
        if self.store is None:
            return set_aside(plan, self.folder)
        # disable=None: no bar where standard error is no terminal, so that logs stay readable.
        with tqdm(desc="verify", unit="frame", disable=None) as bar:
            findings = verify_store(self.store, bar.update)
        planned = {(key.set, key.index) for key in plan.samples.keys}
        damaged = {damage.folder for damage in findings.damaged if damage.folder != Path()}
        mine = {folder for folder in damaged if (folder.parents[1].name, int(folder.name)) in planned}
        for folder in sorted(mine):
            # Without it a sample is not there, and whichever run comes next writes all of it over again.
            self.store.remove((folder / METADATA).as_posix())
        return len(mine), len(damaged - mine)

    def publish(self, samples: Iterable[SampleKey]) -> None:
        """Copy what describes the folder, where it has changed, and list which of some samples are there."""
        if self.store is None:
            return
        new = {name: (self.folder / name).read_bytes() for name in (*DESCRIPTION, SUMS)}
        if new != self.before:
            # In the order of `replace_summed`: whoever is killed in between leaves what the next run mends.
            self.store.write(NEXT_SUMS, new[SUMS])
            for name, data in new.items():
                self.store.write(name, data)
            self.store.remove(NEXT_SUMS)
        thousands: dict[str, set[int]] = {}
        for sample in samples:
            thousands.setdefault(sample.set, set()).add(sample.index // 1000)
        for name, numbers in thousands.items():
            self.there.update((name, index) for index in self.store.complete(name, numbers))

    def count(self, group: Sequence[SamplePlan], receipt: Receipt) -> None:
        """Note which samples of a group have been copied."""
        if self.store:
            self.there.update((one.set, one.index) for one in group if one.id in receipt.written)

    def publish_logs(self) -> None:
        """Copy the logs of what failed, and remove those of samples that are there by now."""
        if self.store is None:
            return
        new = {path.name: path.read_bytes() for path in (self.folder / "failed").glob("*.log")}
        for name, data in new.items():
            self.store.write(f"failed/{name}", data)
        for name in set(self.store.names("failed")) - new.keys():
            set_name, _, number = name.removesuffix(".log").rpartition("-")
            if number.isdecimal() and (set_name, int(number)) in self.there:
                self.store.remove(f"failed/{name}")


@contextmanager
def landing(out: Path | str) -> Iterator[Landing]:
    """Find where samples come to lie, given as a path or a URL.

    Raises:
        InputError: the URL cannot be read, or was taken for a path. What is raised inside and names the
            folder that stands in names the URL instead.
    """
    if not is_elsewhere(out):
        yield Landing(local_folder(out))
        return
    if isinstance(out, Path):
        raise InputError(
            f"output folder {out}: expected a URL as text, got a Path, which drops a slash of it"
        )
    store = open_store(out)
    with staging() as held:
        (folder := held / "about").mkdir()
        place = Landing(folder, store, _fetch_description(store, folder))
        try:
            yield place
            place.publish_logs()
        except InputError as error:
            raise InputError(str(error).replace(str(folder), store.name)) from None


def _fetch_description(store: Store, folder: Path) -> dict[str, bytes]:
    """Have a folder tell what the one elsewhere does: what describes it, or that it is a stranger's."""
    found = {name: data for name in (*DESCRIPTION, SUMS, NEXT_SUMS) if (data := store.read(name)) is not None}
    for name, data in found.items():
        (folder / name).write_bytes(data)
    if DATASET not in found:
        for name in store.names():
            if not (folder / name).exists() and not name.startswith("."):
                (folder / name).mkdir()
    if DATASET in find_changed_files(folder, {DATASET}):
        _fetch_metadata(store, folder)
    return found


def _fetch_metadata(store: Store, folder: Path) -> None:
    """Fetch what says whose samples these are, where ``dataset.json`` cannot: the metadata of one of them."""
    for set_name in store.names("samples"):
        for index in store.complete(set_name):
            file = frame_path(Path(), set_name, index) / METADATA
            if (data := store.read(file.as_posix())) is not None:
                (folder / file).parent.mkdir(parents=True)
                (folder / file).write_bytes(data)
                return


class StoringChild(RenderChild):
    """A render child whose samples are copied to a store, each group while the next ones are rendered.

    A receipt is given once its group has been copied; ``written`` names every sample that was, whatever
    became of the group.
    """

    def render_all(self, groups: Sequence[Sequence[SamplePlan]]) -> Iterator[Receipt]:
        """Have trace groups rendered and copied; arguments and receipts are those of a `RenderChild`."""
        copies: deque[Future[Receipt]] = deque()
        try:
            store = open_store(self.job.store)
        except InputError as error:  # a worker of another machine may lack a package
            yield Receipt(error=_without(without_password(self.job.store), error), fatal=True)
            return
        try:
            for group, receipt in zip(groups, super().render_all(groups), strict=False):
                copies.append(_begin(partial(_copy, store, self.job.root, group, receipt)))
                if len(copies) >= limits.COPIES:
                    yield (copied := copies.popleft().result())
                    if copied.fatal:
                        return
            while copies:
                yield (copied := copies.popleft().result())
                if copied.fatal:
                    return
        finally:
            if copies:  # replies to what was asked are unread
                self.close()


def _begin(copy: Callable[[], Receipt]) -> Future[Receipt]:
    """Start to copy in a thread that does not keep the process alive, however long a store is silent."""
    future: Future[Receipt] = Future()

    def run() -> None:
        try:
            future.set_result(copy())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def _copy(store: Store, root: Path, group: Sequence[SamplePlan], receipt: Receipt) -> Receipt:
    """Copy what there is of a group, and remove it here."""
    whole = [sample for sample in group if is_complete(root, sample.set, sample.index)]
    folders = [frame_path(root, sample.set, sample.index) for sample in whole]
    try:
        store.put_samples(root, folders)
    except InputError as error:
        return replace(receipt, written=(), error=_without(store.name, error), died=False, fatal=True)
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    return replace(receipt, written=tuple(sample.id for sample in whole))


def _without(name: str, error: InputError) -> str:
    """Say what is wrong without the URL, which `render` names."""
    return str(error).removeprefix(f"{name}: ")


_own = ExitStack()  # the staging folder of this process's children, while it has some
_own_folder: list[Path] = []
_own_lock = threading.Lock()


def staged(job: Job) -> Job:
    """Have a job for a store done in a folder of this machine; any other is done where it says.

    Raises:
        OSError: there is no place for temporary files.
    """
    if not job.store:
        return job
    with _own_lock:
        if not _own_folder:
            _own_folder.append(_own.enter_context(staging()))
            atexit.register(clear_staging)
        root = _own_folder[0] / hashlib.sha256(job.store.encode()).hexdigest()[:16]
        root.mkdir(exist_ok=True)
    return replace(job, root=root)


def clear_staging() -> None:
    """Remove the folder that this process's children wrote to, when none is left."""
    with _own_lock:
        _own_folder.clear()
        _own.close()
