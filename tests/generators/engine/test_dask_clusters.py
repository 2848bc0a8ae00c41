"""Messages of asyncio while a run is connected to a scheduler."""

import asyncio
import gc
import logging

import pytest

from candlelight.generators.engine.dask_clusters import without_late_timeouts

pytest.importorskip("distributed", exc_type=ImportError)


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
