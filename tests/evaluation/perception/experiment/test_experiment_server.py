"""The server of the page: its guards, and a simulated observer over HTTP."""

import http.client
import io
import json
import re
import socket
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from candlelight.evaluation.perception import psychometric
from candlelight.evaluation.perception.experiment import ExperimentSettings, fit_answers, read_answers
from candlelight.evaluation.perception.experiment.session import ExperimentServer, run_experiment
from candlelight.loaders.errors import InputError
from tests.refusals import refused

LEVELS = tuple(np.linspace(0.1, 0.9, 5).round(3).tolist())


def call(server, place, body=None, token=None, **headers):
    """Send a request; return status, headers and body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    path = f"/{server.url.split('/')[3] if token is None else token}/{place}"
    if body is not None:
        headers = {"Content-Type": "application/json", **headers}
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        connection.request("GET" if body is None else "POST", path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def reply(trial=0, side="left", seconds=0.5):
    return {"trial": trial, "side": side, "seconds": seconds}


@pytest.fixture
def server(serve, memory_stimuli):
    return serve(memory_stimuli(LEVELS, 4))


def test_the_page_comes_with_a_policy_that_keeps_it_local(server):
    status, headers, body = call(server, "")
    assert status == 200
    assert b"Which picture is changed?" in body
    assert b"http" not in body  # nothing comes from the network
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"
    assert server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "header",
    [
        *({"Host": host} for host in ("127.0.0.1", "127.0.0.1:1", "evil.example:{port}", "")),
        *({"Origin": origin} for origin in ("http://evil.example", "null", "https://127.0.0.1:{port}")),
    ],
    ids=str,
)
def test_another_host_or_origin_is_refused(server, header):
    given = {name: value.format(port=server.server_port) for name, value in header.items()}
    assert call(server, "answer", reply(), **given)[0] == 404
    if "Host" in given:
        assert call(server, "state", **given)[0] == 404
    assert server.session.next_trial == 0


def test_the_same_machine_has_two_names(server):
    assert call(server, "state", Host=f"localhost:{server.server_port}")[0] == 200


@pytest.mark.parametrize("token", ["", "x", "%C3%A9"])
def test_a_wrong_token_is_refused(server, token):
    for place in ("", "state", "picture/0/left"):
        assert call(server, place, token=token)[0] == 404
    assert call(server, "answer", reply(), token=token)[0] == 404


def test_other_paths_are_refused(server):
    for place in ("../etc/passwd", "..%2fetc/passwd", "page.html", "state?a=b", "/state", "end", "answer"):
        assert call(server, place)[0] == 404, place
    for picture in ("0/middle", "-1/left", "2/left", "20/left", "99999999/left", "0/original", "0/left/"):
        assert call(server, f"picture/{picture}")[0] == 404, picture


def test_the_next_two_trials_have_pictures(server):
    for trial in (0, 1):
        names = call(server, f"picture/{trial}/left"), call(server, f"picture/{trial}/right")
        images = [np.asarray(Image.open(io.BytesIO(body)), dtype=int) for _, _, body in names]
        lighter = "left" if images[0][4, 4, 0] > images[1][4, 4, 0] else "right"
        assert lighter == server.session.trials[trial].side
        assert sorted(image[4, 4, 0] for image in images) == [51, 153]
        assert {len(Image.open(io.BytesIO(body)).info) for _, _, body in names} == {0}  # no text in the files


def test_the_original_is_shown_as_a_reminder_alone(serve, memory_stimuli):
    server = serve(memory_stimuli(LEVELS, 1, "transform"), reminder=True)
    status, _, body = call(server, "picture/0/original")
    assert status == 200
    assert np.asarray(Image.open(io.BytesIO(body)))[4, 4, 0] == 51


@pytest.mark.parametrize(
    "body",
    [
        reply(side="middle"),
        reply(seconds=-1),
        b'{"trial": 0, "side": "left", "seconds": NaN}',
        reply(trial="0"),
        {**reply(), "correct": True},
        b"no JSON",
    ],
)
def test_damaged_answers_are_refused(server, body):
    assert call(server, "answer", body)[0] == 400
    assert server.session.next_trial == 0


def test_an_answer_is_logged_once_and_the_page_does_not_learn_the_side(server, tmp_path):
    for trial in (0, 1):
        side = server.session.trials[trial].side
        wrong = "left" if side == "right" else "right"
        status, _, body = call(server, "answer", reply(trial, wrong if trial else side))
        assert status == 200
        shown = {"observer", "scale", "pixels_per_degree", "distance", "reminder", "trial", "total"}
        assert set(json.loads(body)) == shown
        assert json.loads(body)["trial"] == trial + 1
        call(server, "answer", reply(trial, side))  # again, as after a lost connection
        call(server, "answer", reply(trial + 5, side))  # of a trial that has not come
    found = read_answers(tmp_path / "answers.jsonl")
    assert found.correct.tolist() == [True, False]
    assert found.seconds.tolist() == [0.5, 0.5]
    lines = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()[1:]]
    keys = ("session", "observer", "trial", "kind", "image", "transform", "magnitude", "correct", "seconds")
    assert [tuple(line) for line in lines] == [(*keys, "scale", "side", "time")] * 2
    assert [line["trial"] for line in lines] == [0, 1]
    assert lines[0]["side"] == server.session.trials[0].side
    assert lines[0]["magnitude"] == server.session.trials[0].stimulus.magnitude


def test_a_full_disk_is_told_and_the_trial_stays(server, monkeypatch):
    def fail(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fail)
        status, _, body = call(server, "answer", reply())
    assert (status, body) == (507, b"No space left on device")
    assert server.session.next_trial == 0
    assert call(server, "answer", reply())[0] == 200
    assert server.session.next_trial == 1


def damaged(_):
    raise InputError("a.png: cannot be read; replace or remove it")


@pytest.mark.parametrize(
    ("pictures", "message"),
    [
        (damaged, b"a.png: cannot be read; replace or remove it"),
        (
            lambda _: (torch.zeros(3, 2, 2), torch.zeros(3, 2, 3)),
            b"expected two images of one size, got (3, 2, 2) and (3, 2, 3)",
        ),
    ],
)
def test_a_picture_that_cannot_be_shown_is_told(serve, memory_stimuli, tmp_path, pictures, message):
    stimuli = memory_stimuli(LEVELS, 1)
    status, _, body = call(serve(replace(stimuli, pictures=pictures)), "picture/0/left")
    assert status == 500
    assert message in body
    # All pictures are read before the first trial.
    late = replace(stimuli, pictures=lambda one: (pictures if one.level == 4 else stimuli.pictures)(one))
    log = tmp_path / "new.jsonl"
    with refused(re.escape(message.decode())):
        run_experiment(late, ExperimentSettings(), log, "ann", browser=False)
    assert not log.exists()


def test_a_taken_port_is_refused(server):
    with refused(r"port \d+: .*leave `port` out for a free one"):
        ExperimentServer({}, dict, server.server_port)


def test_a_client_that_leaves_is_no_traceback(server, capfd):
    with socket.create_connection(("127.0.0.1", server.server_port)) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close by a reset
        client.sendall(b"GET ")
    assert call(server, "state")[0] == 200
    assert capfd.readouterr().err == ""


def test_the_end_tells_the_fit_of_a_simulated_observer(serve, memory_stimuli, tmp_path):
    server, rng = serve(memory_stimuli(LEVELS, 12)), np.random.default_rng(5)
    for trial in server.session.trials:
        assert json.loads(call(server, "state")[2])["trial"] == trial.number
        chance = psychometric(torch.tensor(trial.stimulus.magnitude), 0.5, 12, lapse=0.02)
        other = "right" if trial.side == "left" else "left"
        side = trial.side if rng.random() < float(chance) else other
        call(server, "answer", reply(trial.number, side))
    [found] = fit_answers(read_answers(tmp_path / "answers.jsonl"))
    assert found.fit.low < 0.5 < found.fit.high
    end = json.loads(call(server, "end")[2])
    assert end["lines"] == [str(found)]
    assert end["plot"].startswith("<?xml")
    assert server.finished.wait(5)


def test_a_log_that_is_gone_ends_the_experiment_with_its_reason(serve, memory_stimuli, tmp_path):
    server = serve(memory_stimuli(LEVELS[:1], 1))
    call(server, "answer", reply(0))
    (tmp_path / "answers.jsonl").unlink()
    status, _, body = call(server, "end")
    assert status == 500
    assert b"cannot be read" in body
    assert server.finished.wait(5)


def test_a_resumed_experiment_goes_on_at_the_next_trial(serve, memory_stimuli):
    stimuli = memory_stimuli(LEVELS, 2)
    first = serve(stimuli)
    for trial in range(3):
        call(first, "answer", reply(trial))
    first.shutdown()
    first.session.log.__exit__()  # the program ends, and the lock with it
    second = serve(stimuli)
    assert json.loads(call(second, "state")[2])["trial"] == 3
    assert second.session.trials == first.session.trials
    second.shutdown()
    second.session.log.__exit__()
    other = serve(stimuli, "bob")
    assert json.loads(call(other, "state")[2])["trial"] == 0


def test_the_page_hears_that_the_log_was_replaced(server, tmp_path):
    assert call(server, "answer", reply())[0] == 200
    log = tmp_path / "answers.jsonl"
    log.rename(tmp_path / "old.jsonl")
    status, _, body = call(server, "answer", reply(1))
    assert status == 409
    assert b"answers.jsonl: was deleted or moved" in body
    assert server.session.next_trial == 1
