"""The page on an evaluation of one's own: its file works as it stands, from any folder."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from candlelight.evaluation import Evaluation, evaluate
from candlelight.evaluation.intrinsic import DECOMPOSITIONS, psnr
from candlelight.evaluation.models.retinex import BASELINES
from candlelight.evaluation.run.evaluate import find_evaluation
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.views import DecomposedImage
from candlelight.loaders.verification.checksums import file_sha256
from tests.command_line import refusal, run
from tests.refusals import refused


@dataclass(frozen=True)
class Nothing:
    """No options."""


PAGE = Path(__file__).parents[3] / "docs" / "own-evaluation.md"


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Write the file of the page, and work in its folder."""
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    assert len(code.splitlines()) < 40
    (tmp_path / "psnr.py").write_text(code)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def view(memory_view):
    draws = torch.rand(6, 2, 3, 8, 9, generator=torch.Generator().manual_seed(0)) + 0.1
    inside = torch.ones(8, 9, dtype=torch.bool)
    inside[0] = False
    items = [
        DecomposedImage(a * b, a, b, inside if row else inside & False) for row, (a, b) in enumerate(draws)
    ]
    return memory_view(items, explains="image")


@pytest.mark.usefixtures("own")
def test_its_numbers_are_those_of_the_metric(view) -> None:
    found = evaluate("psnr.py:psnr", view, {"image": BASELINES["constant-shading"]}, device="cpu", peak=2)
    assert list(found) == ["image", *BASELINES]
    items = view.items
    stacked = (
        torch.stack([getattr(one, name) for one in items]) for name in ("image", "reflectance", "mask")
    )
    image, reflectance, mask = stacked
    expected = psnr(image / 2, reflectance / 2, mask)[1:]
    columns = torch.tensor(found["image"].columns["psnr"], dtype=torch.float64)
    torch.testing.assert_close(columns[1:], expected.double(), rtol=1e-5, atol=0)
    assert columns[0].isnan()  # no pixel is inside the mask
    settings = found["image"].about.settings
    assert settings == {"peak": 2.0, "missing": "error", "evaluation_sha256": file_sha256(Path("psnr.py"))}


@pytest.mark.usefixtures("own")
def test_failed_predictions_count_as_the_worst_and_steps_are_reused(view, tmp_path) -> None:
    def failing(image):
        return torch.where(torch.arange(len(image))[:, None, None, None] == 1, torch.nan, image), image

    found = evaluate("psnr.py:psnr", view, {"failing": failing}, device="cpu", batch_size=6)
    columns = {name: torch.tensor(result.columns["psnr"]) for name, result in found.items()}
    assert found["failing"].failed == (view.ids[1],)
    columns["failing"][1] = torch.nan
    worst = min(float(column[~column.isnan()].min()) for column in columns.values())
    item = view.items[1]
    zero = psnr(torch.zeros(1, 3, 8, 9), item.reflectance[None], item.mask[None])
    assert found["failing"].columns["psnr"][1] == pytest.approx(min(worst, float(zero)))
    kept = [FinishedSteps(tmp_path / "steps") for _ in range(2)]
    first, second = (
        evaluate("psnr.py:psnr", view, ["retinex"], device="cpu", batch_size=2, steps=one) for one in kept
    )
    assert kept[1].reused == 9  # three batches of the model and both controls
    assert {name: one.to_json() for name, one in first.items()} == {
        name: one.to_json() for name, one in second.items()
    }


@pytest.mark.usefixtures("own")
def test_the_command_is_made_of_the_record() -> None:
    told = run("evaluate", "psnr.py:psnr", "--help")
    assert "Measure the peak signal-to-noise ratio of reflectance." in told
    assert re.search(r"--peak FLOAT RANGE +Largest value of the data\.\s+\[default: 1\.0;\s+x>0\]", told)
    assert "--predictions" in told
    words = ("psnr.py:psnr", "data", "--peak", 0)
    assert "0.0 is not in the range x>0" in refusal("evaluate", *words)


@pytest.mark.usefixtures("own")
def test_its_results_get_a_page(view, tmp_path) -> None:
    from candlelight.evaluation.report.page import write_report

    results = evaluate("psnr.py:psnr", view, ["retinex"], device="cpu")
    text = write_report(tmp_path / "psnr.html", list(results.values()), title="PSNR").read_text()
    assert "Bars of psnr of each model" in text
    assert "1 of 6 rows are left out" in text.replace("\N{NO-BREAK SPACE}", " ")
    assert json.loads(results["retinex"].to_json())["about"]["better"] == "higher"


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"peak": 0}, "`peak`: expected above 0, got 0"),
        ({"peak": float("nan")}, "`peak`: expected above 0, got nan"),
        ({"peak": "two"}, "`peak`: expected a number, got 'two'"),
        ({"peka": 1}, "option `peka` is not known; expected peak; did you mean `peak`?"),
    ],
)
def test_wrong_options_are_one_line(view, options, message) -> None:
    with refused(f"^{re.escape(message)}$"):
        evaluate("psnr.py:psnr", view, ["retinex"], **options)


def test_the_name_of_a_control_is_taken(view) -> None:
    with refused("model `gray`: the name is that of a control"):
        evaluate("constancy", view, {"gray": lambda image: (image, image)})
    with refused("evaluation `lsme` is not known; expected one of lmse, .*did you mean"):
        find_evaluation("lsme")


ROW = {
    "name": "own",
    "version": 1,
    "better": "lower",
    "options": Nothing,
    "reads": DECOMPOSITIONS,
    "measure": lambda predicted, truth, options: {"own": predicted.reflectance.mean((1, 2, 3))},
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"measure": None}, "expected measure, with `prepare`, `predict` and `worst` in `reads`; or study"),
        ({"controls": ("constant-shading",)}, "expected controls: models by name, as a dictionary"),
        ({"options": Nothing()}, "expected options: a data class, not an object of it"),
        ({"ranges": {"own": (0, None)}}, "expected ranges: two numbers by column, such as (0, math.inf)"),
        ({"reads": "decompositions"}, "expected reads: a `Reading`, such as `DECOMPOSITIONS`"),
        (
            {"better": "smaller", "version": "1"},
            "expected version: a whole number; better: lower, higher or neither",
        ),
    ],
)
def test_a_record_that_cannot_be_run_is_refused(changes, message) -> None:
    with refused(re.escape(message)):
        Evaluation(**ROW | changes)


def by_row(predicted, truth, options):
    """Undefined where the prediction is dark, which only the truth may decide."""
    return {"own": torch.where(predicted.reflectance.mean((1, 2, 3)) > 0, 1.0, torch.nan)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"measure": lambda predicted, truth, options: {"own": truth.maks}},
            r"`measure` of `own` raised AttributeError: .*maks.* \(test_own_evaluation.py, line \d+\)",
        ),
        ({"measure": lambda *_: torch.ones(3)}, "expected tensors by name .* 6 rows, got float32"),
        (
            {"measure": lambda *_: {"own": torch.ones(())}},
            "expected tensors by name with one entry for each of",
        ),
        ({"measure": lambda *_: {}}, "expected tensors by name"),
        ({"ranges": {"ovn": (0, 1)}}, "evaluation `own`: no column `ovn` for worst or ranges; it has own"),
        ({"measure": by_row}, "`own` of `row-0` is nan for `zeros` and not for `split`: nan marks a truth"),
    ],
)
def test_a_measure_that_cannot_be_used_is_one_line(view, changes, message) -> None:
    models = {"split": lambda image: (image, image), "zeros": lambda image: (0 * image, image)}
    with refused(message):
        evaluate(Evaluation(**ROW | changes), view, models, device="cpu", batch_size=6)


NEEDED = """
from dataclasses import dataclass
from typing import Annotated
from candlelight.evaluation import At, Evaluation, Help
from candlelight.evaluation.intrinsic import DECOMPOSITIONS

@dataclass(frozen=True)
class Options:
    \"\"\"Measure nothing.\"\"\"
    least: Annotated[float, At(above=0), Help("Smallest value.")]

def measure(predicted, truth, options):
    return {"own": predicted.reflectance.mean((1, 2, 3))}

about = {"name": "own", "version": 1, "better": "lower", "options": Options}
own = Evaluation(**about, reads=DECOMPOSITIONS, measure=measure)
"""
FILES = {
    "own.py": NEEDED,
    "taken.py": NEEDED.replace('"name": "own"', '"name": "lmse"'),
    "wrong.py": NEEDED.replace('"lower"', '"less"'),
}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("own.py data", "own.py: name the record in the file: own.py:NAME"),
        ("own.py:wno data", "expected an `Evaluation` named `wno`, got none; did you mean `own`?"),
        ("own.py:own data --model retinex", "Missing option '--least'"),
        ("taken.py:own data", "taken.py:own: `lmse` is a shipped evaluation; give it another `name`"),
        (
            "wrong.py:own data",
            "wrong.py: cannot be imported: evaluation `own`: expected better: lower, higher or neither",
        ),
        ("onw.py:own data", "evaluation `onw.py:own`: there is no file onw.py; did you mean `own.py`?"),
    ],
)
def test_files_without_a_record_and_missing_options(tmp_path, monkeypatch, words, message) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    assert message in refusal("evaluate", *words.split())
