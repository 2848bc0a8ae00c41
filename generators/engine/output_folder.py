"""The output of a run: a folder of this machine, or a store at a URL.

A folder of this machine stands for a store: the description of the data set is written there and copied. The
workers copy the samples (`candlelight.generators.engine.upload`). A sample counts once all its files are in
the store, so a run can be killed at any moment.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from candlelight.generators.engine.group_result import GroupResult
from candlelight.generators.engine.repair import find_damaged, move_damaged_samples
from candlelight.generators.engine.staging_folders import staging_folder
from candlelight.generators.planning.plan import Plan
from candlelight.generators.planning.planned_samples import SampleKey
from candlelight.generators.scenes.plan_records import SamplePlan
from candlelight.loaders.errors import InputError
from candlelight.loaders.files.object_stores import Store, open_store
from candlelight.loaders.files.urls import is_elsewhere, local_folder
from candlelight.loaders.frames import DATASET, METADATA, frame_path, is_complete
from candlelight.loaders.verification.checksums import NEXT_SUMS, SUMS, find_changed_files
from candlelight.loaders.verification.verify_frames import DESCRIPTION
from candlelight.loaders.verification.verify_store import verify_store

_LOGS = "failed"


@dataclass(frozen=True)
class OutputFolder:
    """The folder that a run writes to.

    Attributes:
        folder: folder of this machine.
        store: store that the folder stands for, if the output is a URL.
        stored_description: files that described the data set in the store, by name.
        stored_samples: set and number of the complete samples in the store.
    """

    folder: Path
    store: Store | None = None
    stored_description: dict[str, bytes] = field(default_factory=dict)
    stored_samples: set[tuple[str, int]] = field(default_factory=set)

    @property
    def url(self) -> str:
        """URL of the store; empty for a folder of this machine."""
        return self.store.url if self.store else ""

    def has(self, sample: SamplePlan | SampleKey) -> bool:
        """Return whether a sample is complete."""
        if self.store is None:
            return is_complete(self.folder, sample.set, sample.index)
        return (sample.set, sample.index) in self.stored_samples

    def discard_damaged(self, plan: Plan) -> tuple[int, int]:
        """Check all files, and make the damaged samples of a plan count as missing.

        Returns:
            The number of these samples, and the number of damaged samples that are not in the plan.
        """
        if self.store is None:
            return move_damaged_samples(plan, self.folder)
        mine, others = find_damaged(plan, Path(), partial(verify_store, self.store))
        for folder in mine:
            # A sample without metadata is missing, so the next run writes all its files again.
            self.store.remove((folder / METADATA).as_posix())
        return len(mine), others

    def publish(self, samples: Iterable[SampleKey]) -> None:
        """Copy the description to the store if it has changed, and list the complete samples there."""
        if self.store is None:
            return
        description = {name: (self.folder / name).read_bytes() for name in (*DESCRIPTION, SUMS)}
        if description != self.stored_description:
            # In the order of `replace_summed`: after a kill at any point, the next run completes the files.
            self.store.write(NEXT_SUMS, description[SUMS])
            for name, data in description.items():
                self.store.write(name, data)
            self.store.remove(NEXT_SUMS)
        thousands: dict[str, set[int]] = {}
        for sample in samples:
            thousands.setdefault(sample.set, set()).add(sample.index // 1000)
        for name, numbers in thousands.items():
            self.stored_samples.update((name, index) for index in self.store.complete(name, numbers))

    def add(self, group: Sequence[SamplePlan], result: GroupResult) -> None:
        """Note which samples of a group a worker has copied to the store."""
        if self.store:
            self.stored_samples.update((one.set, one.index) for one in group if one.id in result.written)

    def write_log(self, sample: SamplePlan, result: GroupResult) -> None:
        """Write why a sample failed, and the last output of the render process, to ``failed/ID.log``."""
        log = self.folder / _LOGS / f"{sample.id}.log"
        log.parent.mkdir(exist_ok=True)
        log.write_text(f"{result.error}\n{result.log}", encoding="utf-8")

    def remove_log(self, sample: SamplePlan) -> None:
        """Remove the log that an earlier run wrote for a sample."""
        (self.folder / _LOGS / f"{sample.id}.log").unlink(missing_ok=True)

    def publish_logs(self) -> None:
        """Copy logs of failed samples to the store, and remove its logs of samples that are complete."""
        if self.store is None:
            return
        logs = {path.name: path.read_bytes() for path in (self.folder / _LOGS).glob("*.log")}
        for name, data in logs.items():
            self.store.write(f"{_LOGS}/{name}", data)
        for name in set(self.store.names(_LOGS)) - logs.keys():
            set_name, _, number = name.removesuffix(".log").rpartition("-")
            if number.isdecimal() and (set_name, int(number)) in self.stored_samples:
                self.store.remove(f"{_LOGS}/{name}")


@contextmanager
def open_output(out: Path | str) -> Iterator[OutputFolder]:
    """Open the output of a run, given as a path or a URL.

    Raises:
        InputError: the URL cannot be read, or is given as a Path. Errors raised inside that name the folder
            of this machine name the URL instead.
    """
    if not is_elsewhere(out):
        yield OutputFolder(local_folder(out))
        return
    if isinstance(out, Path):
        raise InputError(
            f"output folder {out}: expected a URL as text, got a Path, which drops a slash of it"
        )
    store = open_store(out)
    with staging_folder() as staging:
        (folder := staging / "about").mkdir()
        output = OutputFolder(folder, store, _fetch_description(store, folder))
        try:
            yield output
            output.publish_logs()
        except InputError as error:
            raise InputError(str(error).replace(str(folder), store.name)) from None


def _fetch_description(store: Store, folder: Path) -> dict[str, bytes]:
    """Make a folder look like the store: with its description, or with the names of its unknown files."""
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
    """Fetch the metadata of one sample, which names its recipe when ``dataset.json`` cannot."""
    for set_name in store.names("samples"):
        for index in store.complete(set_name):
            file = frame_path(Path(), set_name, index) / METADATA
            if (data := store.read(file.as_posix())) is not None:
                (folder / file).parent.mkdir(parents=True)
                (folder / file).write_bytes(data)
                return
