"""Fixtures: a training that is interrupted."""

from collections.abc import Callable

import pytest

from candlelight.evaluation.training.loop import TrainingState


class Stop(Exception):
    """Ends a training as a killed process would."""


@pytest.fixture
def interrupt(monkeypatch) -> Callable[[Callable[[], object]], None]:
    """Call a training that ends as soon as the state after its second part is written."""

    def call(training: Callable[[], object]) -> None:
        write = TrainingState.write

        def stop_at_the_second(self: TrainingState, state: dict[str, object]) -> None:
            write(self, state)
            if state["parts"] == 2:
                raise Stop

        with monkeypatch.context() as patch:
            patch.setattr(TrainingState, "write", stop_at_the_second)
            with pytest.raises(Stop):
                training()

    return call
