"""The order of the trials of an observer, and the side of the distorted image in each."""

from collections.abc import Sequence
from dataclasses import dataclass

from candlelight.evaluation.models.named_streams import named_stream
from candlelight.evaluation.perception.experiment.stimuli import SIDES, Side, Stimulus


@dataclass(frozen=True)
class Trial:
    """One forced choice.

    Attributes:
        number: place in the observer's order, from 0.
        stimulus: the pair.
        side: side of the distorted image.
    """

    number: int
    stimulus: Stimulus
    side: Side


def plan_trials(stimuli: Sequence[Stimulus], seed: int, observer: str) -> tuple[Trial, ...]:
    """Order the pairs at random, and draw sides that are balanced within each level.

    Levels and transforms are mixed (constant stimuli). Half of the answers at each level of a transform have
    the distorted image on the left; for an odd number the extra side is drawn.

    Args:
        stimuli: each pair as often as it is shown.
        seed: seed of all observers.
        observer: name of the observer; another name has another order.

    Example:
        >>> pairs = [Stimulus("rated", name, None, 0.5, 0, 0) for name in "abcd"]
        >>> trials = plan_trials(pairs, 0, "ann")
        >>> sorted(trial.stimulus.image for trial in trials), sorted(trial.side for trial in trials)
        (['a', 'b', 'c', 'd'], ['left', 'left', 'right', 'right'])
    """
    stream = named_stream(seed, f"sides of {observer}")
    cells: dict[tuple[str | None, int], list[int]] = {}
    for place, stimulus in enumerate(stimuli):
        cells.setdefault((stimulus.transform, stimulus.level), []).append(place)
    sides: dict[int, Side] = {}
    for places in cells.values():
        first = int(stream.integers(2))
        for turn, place in enumerate(stream.permutation(places).tolist()):
            sides[place] = SIDES[(first + turn) % 2]
    order = named_stream(seed, f"order of {observer}").permutation(len(stimuli)).tolist()
    return tuple(Trial(number, stimuli[place], sides[place]) for number, place in enumerate(order))
