"""Fixtures: rated pairs in TID2013's layout, pairs in memory, and a running server."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from candlelight.evaluation.perception.experiment.answers import AnswerLog, AnswerRecord
from candlelight.evaluation.perception.experiment.session import ExperimentServer, TrialSession, summarise_log
from candlelight.evaluation.perception.experiment.stimuli import Stimulus, StimulusSet, plan_trials
from candlelight.evaluation.views import DataIdentity


def write_pairs(folder: Path, scores: Sequence[float], height: int = 6, width: int = 8) -> None:
    """Write rated pairs with given mean opinion scores in TID2013's layout."""
    for name in ("distorted_images", "reference_images"):
        (folder / name).mkdir(parents=True)
    places = [(1 + i // 120, 1 + i // 5 % 24, 1 + i % 5) for i in range(len(scores))]
    for reference, kind, level in places:
        gray = np.full((height, width, 3), 9 * reference, np.uint8)
        Image.fromarray(gray).save(folder / "reference_images" / f"I{reference:02d}.BMP", "BMP")
        name = f"i{reference:02d}_{kind:02d}_{level}.bmp"
        Image.fromarray(gray + np.uint8(5 * kind + level)).save(folder / "distorted_images" / name)
    lines = [f"{s} i{r:02d}_{k:02d}_{n}.bmp\n" for s, (r, k, n) in zip(scores, places, strict=True)]
    (folder / "mos_with_names.txt").write_text("".join(lines))
    (folder / "mos_std.txt").write_text("0.1\n" * len(scores))


@pytest.fixture
def write_tid(tmp_path) -> Callable[[Sequence[float]], str]:
    """Write rated pairs with given mean opinion scores; return their name."""

    def write(scores: Sequence[float]) -> str:
        write_pairs(tmp_path / "tid2013", scores)
        return f"tid2013:{tmp_path / 'tid2013'}"

    return write


def flat_pairs(levels: Sequence[float], repeats: int, kind: Any = "rated", side: int = 8) -> StimulusSet:
    """Make flat pairs: the distorted image is lighter. Every image has another gray in its corner."""
    name = None if kind == "rated" else "rotation"
    stimuli = tuple(
        Stimulus(kind, f"pair-{level}-{repeat}", name, magnitude, level, repeat)
        for level, magnitude in enumerate(levels)
        for repeat in range(repeats)
    )

    def pictures(stimulus: Stimulus) -> tuple[torch.Tensor, torch.Tensor]:
        original = torch.full((3, side, side), 0.2)
        original[:, 0, 0] = (stimulus.row + 1) / 51
        distorted = original + 0.4
        distorted[:, 0, 0] = original[:, 0, 0]
        return original, distorted

    return StimulusSet(DataIdentity("flat", "memory"), stimuli, pictures)


def answer(trial: int, **changes: Any) -> AnswerRecord:
    given = {
        **{"session": "s", "observer": "ann", "trial": trial, "kind": "transform", "image": "a.png"},
        **{"transform": "rotation", "magnitude": 0.5, "correct": True, "seconds": 1.25, "side": "left"},
        "time": "t",
    }
    return AnswerRecord(**{**given, **changes})


@pytest.fixture
def memory_stimuli() -> Callable[..., StimulusSet]:
    return flat_pairs


@pytest.fixture
def serve(tmp_path) -> Iterator[Callable[..., ExperimentServer]]:
    """Start servers of experiments on `tmp_path/answers.jsonl`; they end with the test."""
    with ExitStack() as stack:

        def start(stimuli: Any, observer: str = "ann", **page: Any) -> ExperimentServer:
            path = tmp_path / "answers.jsonl"
            log = stack.enter_context(AnswerLog(path, {"trials": len(stimuli.stimuli)}))
            trials = plan_trials(stimuli.stimuli, 3, observer)
            shown = {"observer": observer, "scale": None, "pixels_per_degree": 29.2, "distance": None}
            shown = {**shown, "reminder": False, **page}
            server = stack.enter_context(ExperimentServer(shown, lambda: summarise_log(path)))
            server.session = TrialSession(stimuli, trials, log, observer, shown["reminder"])
            thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
            thread.start()
            stack.callback(server.shutdown)
            return server

        yield start
