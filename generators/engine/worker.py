"""The worker's end of a run: it claims trace groups, and has its own render child do them."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace

from generators.engine import limits
from generators.engine.devices import GpuSlot
from generators.engine.group_locks import GroupLocks
from generators.engine.remote_output import UploadingRenderProcess, clear_staging, staged
from generators.engine.render_process import GroupResult, RenderProcess, RunSettings
from generators.scenes.scene import SamplePlan
from loaders.frames import is_complete

TraceGroup = Sequence[SamplePlan]

_children: dict[tuple[str, str], RenderProcess] = {}  # by address of the worker that owns it, and run
_turns: dict[tuple[str, str], threading.Lock] = {}  # held by the thread that uses that child
_over: set[str] = set()  # runs, of which a task may still come
_lock = threading.Lock()
_slots: dict[str, GpuSlot] = {}


def render_groups(job: RunSettings, groups: Sequence[TraceGroup]) -> list[GroupResult]:
    """Render trace groups in this worker's child, but for those that another run is at work on.

    Args:
        job: what they are rendered for.
        groups: the groups.

    Returns:
        What became of each.
    """
    try:
        with _child(job) as child, closing(GroupLocks(child.job.root)) as claims:
            free = [group for group in groups if claims.take(group[0].group)]
            # Another run may have finished some since this one looked.
            left = {group[0].group: _missing(child.job, group) for group in free}
            asked = [group for group in left.values() if group]
            answers = dict(zip((group[0].group for group in asked), _answers(child, asked), strict=True))
    except OSError as error:
        return [GroupResult(error=str(error), fatal=True)] * len(groups)
    there = dict.fromkeys(left, GroupResult())
    return [(there | answers).get(group[0].group, GroupResult(busy=True)) for group in groups]


def stop_render_processes(run: str) -> None:
    """Stop this process's children of a run that is over, at once, and whatever is still asked for it."""
    with _lock:
        _over.add(run)
        for key in [key for key in _children if key[1] == run]:
            _children[key].retire()
            if not _turns[key].locked():
                _children.pop(key).close()


def close_render_processes(run: str) -> None:
    """Close what is left of a run's children in this process, when no thread of a worker uses one."""
    with _lock:
        for key in [key for key in _children if key[1] == run]:
            _children.pop(key).close()
        for address in _slots.keys() - {address for address, _ in _children}:
            _slots.pop(address).close()
        if not _children:
            clear_staging()


@contextmanager
def _child(job: RunSettings) -> Iterator[RenderProcess]:
    """Have this worker's child for a job to oneself; those for others are closed, but for what is in use."""
    from distributed import get_worker

    address = get_worker().address
    key = address, job.run
    with _turns.setdefault(key, threading.Lock()):  # a worker may have more than one thread
        with _lock:
            # Held until the child is known, else the end of another run takes folder and slot away.
            job = _seated(staged(job), address)
            for other in [one for one in _children if one[0] == address]:
                if _children[other].job != job and (other == key or not _turns[other].locked()):
                    _children.pop(other).close()
            child = _children.setdefault(key, (UploadingRenderProcess if job.store else RenderProcess)(job))
            if job.run in _over:
                child.retire()
        try:
            yield child
        finally:
            with _lock:
                if job.run in _over and _children.get(key) is child:
                    _children.pop(key).close()


def _seated(job: RunSettings, address: str) -> RunSettings:
    """Say which GPU of this host a worker's children take; the lock is held, for its threads share one."""
    if job.device.device == "cpu":
        return job
    if address not in _slots:
        _slots[address] = GpuSlot()
    return replace(job, device=replace(job.device, slot=_slots[address].number))


def _missing(job: RunSettings, group: TraceGroup) -> TraceGroup:
    return tuple(sample for sample in group if not is_complete(job.root, sample.set, sample.index))


def _answers(child: RenderProcess, groups: Sequence[TraceGroup]) -> list[GroupResult]:
    """Render groups, and those that may have killed the child once more, each by itself."""
    receipts: list[GroupResult] = []
    while len(receipts) < len(groups):
        left = groups[len(receipts) :]
        receipts += child.render_all(left)
        if receipts[-1].died and not receipts[-1].fatal:
            # Of several groups it is not known which one the child died of.
            lost = 1 if len(left) == 1 else 0
            receipts[-1] = _alone(
                child, groups[len(receipts) - 1], limits.PROCESSES_PER_GROUP - lost, receipts[-1]
            )
        if receipts[-1].fatal:
            receipts += [receipts[-1]] * (len(groups) - len(receipts))
    return receipts


def _alone(child: RenderProcess, group: TraceGroup, tries: int, receipt: GroupResult) -> GroupResult:
    """Render one group, which is given up when it has cost that many children."""
    for _ in range(tries):
        receipt = child.render(group)
        if not receipt.died:
            break
    return receipt
