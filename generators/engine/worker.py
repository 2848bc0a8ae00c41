"""Render the trace groups of a task in a worker: lock groups, render them, try crashed groups again."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace

from candlelight.generators.engine import retry_limits
from candlelight.generators.engine.gpu_slots import GpuSlot
from candlelight.generators.engine.group_result import GroupResult, GroupStatus
from candlelight.generators.engine.output_locks import GroupLocks
from candlelight.generators.engine.render_process import RenderProcess, RunSettings
from candlelight.generators.scenes.plan_records import SamplePlan
from candlelight.loaders.frames import is_complete

TraceGroup = Sequence[SamplePlan]

_Key = tuple[str, str]  # address of the worker, and name of the run
# A dask worker may be a thread of this process, so one process may hold the render processes of several.
_processes: dict[_Key, RenderProcess] = {}
_in_use: dict[_Key, threading.Lock] = {}  # held by the thread that uses the render process
_stopped_runs: set[str] = set()  # tasks of these runs may still arrive
_slots: dict[str, GpuSlot] = {}  # by address of the worker
_lock = threading.Lock()  # for all of the above


def render_groups(settings: RunSettings, groups: Sequence[TraceGroup]) -> list[GroupResult]:
    """Render trace groups in the render process of this worker, except those that another run has locked.

    Args:
        settings: settings of the run.
        groups: the trace groups of a task.

    Returns:
        The result of each group.
    """
    try:
        with _own_process(settings) as process, closing(GroupLocks(process.settings.root)) as locks:
            locked = [group for group in groups if locks.try_lock(group[0].group)]
            # Another run may have finished samples before these groups were locked.
            missing = {group[0].group: _missing(process.settings, group) for group in locked}
            left = {name: group for name, group in missing.items() if group}
            results = dict.fromkeys(missing, GroupResult(GroupStatus.WRITTEN))
            results |= zip(left, _render_with_retries(process, list(left.values())), strict=True)
    except OSError as error:
        return [GroupResult(GroupStatus.FATAL, error=str(error))] * len(groups)
    return [results.get(group[0].group, GroupResult(GroupStatus.LOCKED)) for group in groups]


def stop_render_processes(run: str) -> None:
    """Kill this process's render processes of a run that is over, and refuse later tasks of the run."""
    with _lock:
        _stopped_runs.add(run)
        for key in [key for key in _processes if key[1] == run]:
            _processes[key].retire()
            if not _in_use[key].locked():
                _processes.pop(key).close()


def close_render_processes(run: str) -> None:
    """Close the remaining render processes of a run, when no thread of a worker uses one any more."""
    with _lock:
        for key in [key for key in _processes if key[1] == run]:
            _processes.pop(key).close()
        for address in _slots.keys() - {address for address, _ in _processes}:
            _slots.pop(address).close()


@contextmanager
def _own_process(settings: RunSettings) -> Iterator[RenderProcess]:
    """Hold the worker's render process for a run; close its idle render processes for other runs."""
    from distributed import get_worker

    address = get_worker().address
    key = address, settings.run
    with _in_use.setdefault(key, threading.Lock()):  # a worker may have more than one thread
        with _lock:
            # Held until the process is registered; otherwise the end of another run removes folder and slot.
            settings = _with_slot(settings, address)
            for other in [one for one in _processes if one[0] == address]:
                if _processes[other].settings != settings and (other == key or not _in_use[other].locked()):
                    _processes.pop(other).close()
            process = _processes.setdefault(key, RenderProcess(settings))
            if settings.run in _stopped_runs:
                process.retire()
        try:
            yield process
        finally:
            with _lock:
                if settings.run in _stopped_runs and _processes.get(key) is process:
                    _processes.pop(key).close()


def _with_slot(settings: RunSettings, address: str) -> RunSettings:
    """Add the number of the GPU that the worker's render processes take; its threads share the number."""
    if settings.device.device == "cpu":
        return settings
    if address not in _slots:
        _slots[address] = GpuSlot()
    return replace(settings, device=replace(settings.device, slot=_slots[address].number))


def _missing(settings: RunSettings, group: TraceGroup) -> TraceGroup:
    return tuple(sample for sample in group if not is_complete(settings.root, sample.set, sample.index))


def _render_with_retries(process: RenderProcess, groups: Sequence[TraceGroup]) -> list[GroupResult]:
    """Render groups; render a group over which the process may have crashed again, by itself."""
    results: list[GroupResult] = []
    while len(results) < len(groups):
        left = groups[len(results) :]
        results += _render(process, left)
        if results[-1].status is GroupStatus.CRASHED:
            # If several groups were left, the crash may be due to another group and does not count.
            tries = retry_limits.PROCESSES_PER_GROUP - (1 if len(left) == 1 else 0)
            results[-1] = _retry(process, groups[len(results) - 1], tries, results[-1])
        if results[-1].status is GroupStatus.FATAL:
            results += [results[-1]] * (len(groups) - len(results))
    return results


def _retry(process: RenderProcess, group: TraceGroup, tries: int, result: GroupResult) -> GroupResult:
    for _ in range(tries):
        (result,) = _render(process, [group])
        if result.status is not GroupStatus.CRASHED:
            break
    return result


def _render(process: RenderProcess, groups: Sequence[TraceGroup]) -> list[GroupResult]:
    return list(process.render_all(groups))
