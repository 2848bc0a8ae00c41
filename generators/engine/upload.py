"""Copy frames from a folder of this machine to a store, and remove each sample that is copied."""

import shutil
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from candlelight.generators.engine import retry_limits
from candlelight.generators.engine.group_result import GroupResult, GroupStatus
from candlelight.generators.engine.render_process import RunSettings
from candlelight.generators.scenes.plan_records import SamplePlan
from candlelight.loaders.errors import InputError
from candlelight.loaders.files.object_stores import Store, open_store
from candlelight.loaders.files.urls import without_password
from candlelight.loaders.frames import frame_path, is_complete


def upload_results(
    settings: RunSettings, groups: Sequence[Sequence[SamplePlan]], results: Generator[GroupResult]
) -> Iterator[GroupResult]:
    """Copy the samples of trace groups to the store, while the next groups are rendered.

    | a group is | until                                                                    |
    |------------|--------------------------------------------------------------------------|
    | rendered   | ``results`` yields its result                                            |
    | copied     | a thread has copied its samples; at most `retry_limits.UPLOADS` groups at once |
    | finished   | its result is yielded, in the order of the groups                        |

    Args:
        settings: settings with a store.
        groups: the groups that are being rendered.
        results: their results, in the same order.

    Yields:
        The results; ``written`` names every sample that was copied, even of a group that failed or crashed.
        A copy that fails is FATAL and the last result.
    """
    try:
        store = open_store(settings.store)
    except InputError as error:  # a worker on another machine may lack a package
        yield GroupResult(GroupStatus.FATAL, error=_without(without_password(settings.store), error))
        return
    copying: deque[Future[GroupResult]] = deque()
    with closing(results):
        rendered = zip(groups, results, strict=False)  # after a crash there are fewer results
        while True:
            more = next(rendered, None) if len(copying) < retry_limits.UPLOADS else None
            if more:
                copying.append(_start(partial(_copy, store, settings.root, *more)))
            elif copying:
                yield (result := copying.popleft().result())
                if result.status is GroupStatus.FATAL:
                    return
            else:
                return


def _start(copy: Callable[[], GroupResult]) -> Future[GroupResult]:
    """Copy in a daemon thread, so that a store that does not answer cannot keep the process alive."""
    future: Future[GroupResult] = Future()

    def run() -> None:
        try:
            future.set_result(copy())
        except BaseException as error:  # raised in the thread that waits for the result
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def _copy(store: Store, root: Path, group: Sequence[SamplePlan], result: GroupResult) -> GroupResult:
    """Copy the complete samples of a group to the store, and remove them here."""
    whole = [sample for sample in group if is_complete(root, sample.set, sample.index)]
    folders = [frame_path(root, sample.set, sample.index) for sample in whole]
    try:
        store.put_samples(root, folders)
    except InputError as error:
        return replace(result, status=GroupStatus.FATAL, written=(), error=_without(store.name, error))
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    return replace(result, written=tuple(sample.id for sample in whole))


def _without(name: str, error: InputError) -> str:
    """Return the message without the URL, because `render` names the URL."""
    return str(error).removeprefix(f"{name}: ")
