"""``candlelight perception``: an experiment from the command line, its resume, and the fit of its log."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest
from PIL import Image

from candlelight.evaluation.perception.experiment import read_answers, session
from candlelight.evaluation.perception.experiment.answers import AnswerLog, AnswerRecord
from tests.command_line import refusal, run

ANSWER = AnswerRecord(
    **{"session": "", "observer": "ann", "trial": 0, "kind": "rated", "image": "a", "transform": None},
    **{"magnitude": 0.4, "correct": True, "seconds": 1.0, "side": "left", "time": ""},
)


EXPERIMENT, FIT = ("perception", "experiment"), ("perception", "fit")


@pytest.fixture
def photographs(tmp_path):
    folder = tmp_path / "photographs"
    folder.mkdir()
    for name in "ab":
        pixels = np.random.default_rng(ord(name)).integers(0, 256, (24, 32, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{name}.png")
    return folder


@pytest.fixture
def answering(monkeypatch):
    """Take the place of the browser: answer the next trials, and then load the end or press Ctrl-C."""

    def install(most):
        def play(url):
            host, token = re.fullmatch(r"http://([^/]+)/([^/]+)/", url).groups()

            def call(place, body=None):
                connection = http.client.HTTPConnection(host, timeout=10)
                kind = {"Content-Type": "application/json"}
                connection.request("POST" if body else "GET", f"/{token}/{place}", body, kind)
                content = json.loads(connection.getresponse().read())
                connection.close()
                return content

            def answer():
                state = call("state")
                for _ in range(min(most, state["total"] - state["trial"])):
                    reply = {"trial": state["trial"], "side": "left", "seconds": 1.0}
                    state = call("answer", json.dumps(reply))
                if state["trial"] == state["total"]:
                    call("end")
                else:
                    signal.raise_signal(signal.SIGINT)

            threading.Thread(target=answer, daemon=True).start()

        monkeypatch.setattr("webbrowser.open", play)
        monkeypatch.setattr(session, "_LAST_TRANSFER", 0.01)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in the background
    yield install
    signal.signal(signal.SIGINT, before)


def test_an_experiment_is_interrupted_resumed_and_fitted(photographs, tmp_path, answering):
    out, plot = tmp_path / "answers.jsonl", tmp_path / "plot.png"
    words = (*EXPERIMENT, photographs, "--out", out, "--transform", "rotation=6", "--levels", 2)
    words = (*words, "--repeats", 4, "--size", 16)
    answering(3)
    lines = run(*words).splitlines()
    assert lines[0].startswith("0 of 8 pairs are answered; the page is http://127.0.0.1:")
    assert lines[1] == f"{out}: 5 pairs of anonymous are left; run the same command again to continue"
    assert lines[2].startswith("rotation (3 answers): ")
    assert len(read_answers(out)) == 3
    answering(100)
    text = run(*words)
    assert text.startswith("3 of 8 pairs are answered")
    assert "left; run" not in text
    found = read_answers(out)
    assert sorted(found.magnitudes) == [3] * 4 + [6] * 4
    assert found.correct.sum() == 4  # the left one every time, and sides are balanced
    assert "was begun with levels 2, got 3" in refusal(*words, "--levels", 3)
    lines = run(*FIT, out, "--out", plot).splitlines()
    assert lines[0].startswith("rotation (8 answers): no threshold, the fit did not converge")
    assert lines[1] == str(plot)
    with Image.open(plot) as drawn:
        assert drawn.size[0] > 500


def test_another_observer_of_the_log_begins_anew(photographs, tmp_path, answering):
    out = tmp_path / "answers.jsonl"
    words = ("--out", out, "--transform", "scale", "--levels", 2, "--repeats", 2, "--size", 16)
    answering(100)
    for name in ("ann", "bob"):
        assert run(*EXPERIMENT, photographs, *words, "--observer", name).startswith("0 of 4 pairs")
    assert read_answers(out).observer == ("ann",) * 4 + ("bob",) * 4


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ((), (29.2, None, None)),
        (("--pixels-per-degree", 40, "--scale", 2), (40, 2, None)),
        # 0.5 mm of the screen for each pixel of an image: 2 * 600 * tan(0.5 degrees) / 0.5 a degree, nearly
        (("--distance", 600, "--pitch", 0.25, "--scale", 2), (20.94, 2, 600)),
        (("--distance", 600, "--pitch", 0.25), (41.89, 1, 600)),
    ],
)
def test_the_geometry_of_the_screen_is_logged(photographs, tmp_path, answering, options, wanted):
    words = (
        "--transform",
        "scale",
        "--levels",
        2,
        "--repeats",
        1,
        "--size",
        16,
        "--out",
        tmp_path / "a.jsonl",
    )
    answering(100)
    run(*EXPERIMENT, photographs, *words, *options)
    found = read_answers(tmp_path / "a.jsonl").settings
    assert found["pixels_per_degree"] == pytest.approx(wanted[0], abs=0.01)
    assert (found["scale"], found["distance"]) == wanted[1:]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--transform rotation=far", "expected NAME or NAME=LARGEST with a number"),
        ("--transform rotate", "`name` must be one of"),
        ("--transform scale --transform scale=1.2", "--transform scale: given twice"),
        ("--transform rotation=-6", "above 0, which changes nothing, got -6"),
        ("--distance 600", "expected --pixels-per-degree alone, or both --distance and --pitch"),
        ("--distance 6 --pitch 1 --pixels-per-degree 3", "expected --pixels-per-degree alone"),
        ("--levels 1", "--levels"),
        ("--moved", "expected a folder of frames"),
    ],
)
def test_wrong_options_leave_no_log(photographs, tmp_path, options, message):
    out = tmp_path / "answers.jsonl"
    assert message in refusal(*EXPERIMENT, photographs, "--out", out, *options.split())
    assert not out.exists()


def test_a_port_that_is_taken_leaves_no_log(photographs, tmp_path):
    out = tmp_path / "answers.jsonl"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refusal(
            *(*EXPERIMENT, photographs, "--out", out, "--size", 16, "--levels", 2, "--repeats", 1),
            *("--port", port),
        )
    assert f"port {port}: " in line
    assert not out.exists()


def test_a_wrong_log_or_plot_is_refused(tmp_path):
    log, plot = tmp_path / "answers.jsonl", tmp_path / "plot.svg"
    with AnswerLog(log, {}):
        pass
    assert "has no answers yet; continue the experiment" in refusal(*FIT, log, "--out", plot)
    assert not plot.exists()
    with AnswerLog(log, {}) as opened:
        opened.append(ANSWER)
    assert "plot.txt" in refusal(*FIT, log, "--out", tmp_path / "plot.txt")
    log.unlink()
    assert "cannot be read: No such file" in refusal(*FIT, log)
    log.write_text("{}\n")
    assert "expected a first line with `format`" in refusal(*FIT, log)


def test_the_program_ends_at_ctrl_c(photographs, tmp_path):
    few = ("--transform", "rotation=6", "--levels", 2, "--repeats", 4, "--size", 16)
    words = (*EXPERIMENT, photographs, "--out", tmp_path / "a.jsonl", *few, "--no-browser")
    command = [sys.executable, "-m", "candlelight", *map(str, words)]
    # A shell starts background jobs with Ctrl-C ignored, and their children inherit this.
    restore = "import os, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    restore += f"os.execv({sys.executable!r}, {command!r})"
    program = subprocess.Popen(
        [sys.executable, "-c", restore], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    assert program.stdout is not None
    assert "the page is http://127.0.0.1:" in program.stdout.readline()
    program.send_signal(signal.SIGINT)
    text, _ = program.communicate(timeout=30)
    assert program.returncode == 0
    assert text.endswith("a.jsonl: 8 pairs of anonymous are left; run the same command again to continue\n")
