"""The page in a real browser, by keyboard, by touch and by mouse."""

import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from candlelight.evaluation.perception import fit_psychometric, psychometric
from candlelight.evaluation.perception.experiment import fit_answers, read_answers
from candlelight.evaluation.perception.experiment.answers import read_log

pytestmark = pytest.mark.oracle
READY = "#stage[data-trial='{}']"
# The pause between trials is as short as it can be.
HURRY = "const later = window.setTimeout; window.setTimeout = (call, _) => later(call, 0);"


@pytest.fixture
def open_page(browser):
    """Open a page of the server in the window, or in a window of its own size; no error may appear."""
    problems, contexts = [], []

    def open_url(server, strict=True, **window):
        context = browser.new_context(**(window or {"no_viewport": True}))
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.add_init_script(HURRY)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if strict else None)
        page.goto(server.url)
        page.wait_for_selector("button")
        return page

    yield open_url
    for context in contexts:
        context.close()
    assert problems == []


def other(side):
    return "right" if side == "left" else "left"


def test_a_simulated_observer_at_the_keyboard(serve, memory_stimuli, tmp_path, open_page):
    """The page's own log gives the same fit as the simulated answers; a break comes after 50 answers."""
    server = serve(memory_stimuli((0.2, 0.4, 0.55, 0.8), 13))
    rng, levels, answers = np.random.default_rng(2), [], []
    page = open_page(server)
    page.keyboard.press("Space")
    for trial in server.session.trials:
        if trial.number == 50:
            assert "Time for a break" in page.inner_text("#card")
            page.keyboard.press("Enter")
        page.wait_for_selector(READY.format(trial.number))
        assert page.inner_text("#progress") == f"{trial.number} of 52"
        level = trial.stimulus.magnitude
        knows = rng.random() < float(psychometric(torch.tensor(level), 0.5, 20, lapse=0.02))
        side = trial.side if knows else other(trial.side)
        page.keyboard.press(rng.choice({"left": ["ArrowLeft", "f"], "right": ["ArrowRight", "j"]}[side]))
        levels.append(level)
        answers.append(knows)
        if trial.number == 49:
            page.wait_for_selector("#card button")
    page.wait_for_selector("#card img")
    counts = torch.tensor(answers).long(), torch.ones(52).long()
    wanted = fit_psychometric(torch.tensor(levels, dtype=torch.float64), *counts)
    logged = read_answers(tmp_path / "answers.jsonl")
    np.testing.assert_array_equal(logged.magnitudes, levels)
    np.testing.assert_array_equal(logged.correct, answers)
    [found] = fit_answers(logged)
    assert found.fit == wanted
    assert str(found) in page.inner_text("#card")
    page.reload()  # of a finished experiment shows the end at once
    page.wait_for_selector("#card img")
    assert page.evaluate("document.querySelector('#card img').naturalWidth") > 0
    assert (logged.seconds > 0).all()
    assert (logged.seconds < 5).all()


def test_touch_on_a_phone_and_then_a_mouse(serve, memory_stimuli, tmp_path, open_page):
    server = serve(memory_stimuli((0.2, 0.8), 3, "transform", side=40), reminder=True)
    trials = server.session.trials
    phone = {"viewport": {"width": 390, "height": 780}, "device_scale_factor": 3}
    page = open_page(server, **phone, has_touch=True, is_mobile=True)
    assert "Above is the original" in page.inner_text("#card")
    page.get_by_role("button").tap()
    for trial in trials[:3]:
        page.wait_for_selector(READY.format(trial.number))
        page.get_by_alt_text("original picture").tap()  # no choice
        page.touchscreen.tap(195, 20)  # beside the pictures
        page.get_by_alt_text(f"{trial.side} picture").tap()
    page.wait_for_selector(READY.format(3))
    page.context.close()  # a page that is closed and opened again goes on
    page = open_page(server)
    page.get_by_role("button", name="Continue").click()
    for trial in trials[3:]:
        page.wait_for_selector(READY.format(trial.number))
        page.get_by_alt_text(f"{other(trial.side)} picture").click(button="right")  # no answer
        page.get_by_alt_text(f"{other(trial.side)} picture").click()
    page.wait_for_selector("#card img")
    assert read_answers(tmp_path / "answers.jsonl").correct.tolist() == [True] * 3 + [False] * 3


@pytest.mark.parametrize("scale", [None, 3])
def test_pixels_are_shown_without_resampling(serve, memory_stimuli, open_page, scale):
    pair = torch.from_numpy(np.random.default_rng(0).random((2, 3, 61, 47), np.float32))
    stimuli = replace(memory_stimuli((0.2, 0.8), 1), pictures=lambda _: tuple(pair))
    server = serve(stimuli, scale=scale, reminder=True)
    page = open_page(server)
    page.keyboard.press("Space")
    page.wait_for_selector(READY.format(0))
    shot = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    ratio = page.evaluate("devicePixelRatio")
    assert ratio == 1.5
    pixels = (pair * 255).round().byte().permute(0, 2, 3, 1).numpy()
    for name in ("original", "left", "right"):
        shown = pixels[int(name == server.session.trials[0].side)]
        shown = shown.repeat(scale or 2, 0).repeat(scale or 2, 1)
        box = page.get_by_alt_text(f"{name} picture").bounding_box()
        y, x = round(box["y"] * ratio), round(box["x"] * ratio)
        np.testing.assert_array_equal(shot[y : y + len(shown), x : x + shown.shape[1]], shown)
        assert shot[y - 1, x].tolist() == [128] * 3  # mid-grey around


def test_a_small_window_hides_the_trial_until_it_is_enlarged(serve, memory_stimuli, open_page):
    server = serve(memory_stimuli((0.2, 0.8), 1, side=200))
    page = open_page(server, viewport={"width": 400, "height": 300})
    page.keyboard.press("Space")
    page.wait_for_selector("text=The window is too small")
    assert "The pictures need 448 × 244 pixels" in page.inner_text("#card")
    page.keyboard.press("ArrowLeft")
    assert server.session.next_trial == 0
    page.set_viewport_size({"width": 900, "height": 600})
    page.wait_for_selector(READY.format(0))
    page.set_viewport_size({"width": 300, "height": 600})
    page.wait_for_selector("text=The window is too small")
    page.set_viewport_size({"width": 900, "height": 600})
    page.wait_for_selector(READY.format(0))
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(READY.format(1))


def test_the_scale_of_the_first_pair_is_kept_and_logged(serve, memory_stimuli, open_page, tmp_path):
    server = serve(memory_stimuli((0.2, 0.8), 1, side=100))
    page = open_page(server, viewport={"width": 900, "height": 600}, device_scale_factor=2)
    page.keyboard.press("Space")
    page.wait_for_selector(READY.format(0))
    page.set_viewport_size({"width": 230, "height": 600})  # a scale of 1 would fit
    page.wait_for_selector("text=The window is too small")
    page.set_viewport_size({"width": 900, "height": 600})
    page.wait_for_selector(READY.format(0))
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(READY.format(1))
    _, [record] = read_log(tmp_path / "answers.jsonl")
    assert record.scale == 2


def test_an_answer_that_is_not_saved_can_be_sent_again(serve, memory_stimuli, open_page, monkeypatch):
    server = serve(memory_stimuli((0.2, 0.8), 1))
    page = open_page(server, strict=False)  # the browser itself reports a failed request
    page.keyboard.press("Space")
    page.wait_for_selector(READY.format(0))

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fail)
        page.keyboard.press("ArrowLeft")
        page.wait_for_selector("text=The answer was not saved")
        assert "No space left on device" in page.inner_text("#card")
    page.keyboard.press("Space")
    page.wait_for_selector(READY.format(1))
    assert server.session.next_trial == 1
