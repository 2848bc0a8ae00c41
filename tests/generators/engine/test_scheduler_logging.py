"""Messages of asyncio while `distributed` is in use."""

import asyncio
import gc
import logging

from generators.engine.scheduler_logging import without_late_timeouts


def drop(error: Exception) -> None:
    """Drop a failed future whose result is never read."""

    async def fail():
        asyncio.get_running_loop().create_future().set_exception(error)
        gc.collect()

    asyncio.run(fail())


def test_only_timeouts_are_silenced_and_only_inside_the_block(caplog):
    with caplog.at_level(logging.ERROR, "asyncio"):
        with without_late_timeouts():
            drop(TimeoutError("Timeout"))
            assert not caplog.records
            drop(ValueError("another"))
            assert len(caplog.records) == 1
        drop(TimeoutError("Timeout"))
        assert len(caplog.records) == 2
