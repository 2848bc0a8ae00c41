"""The page on an evaluation of one's own: its file works as it stands, from any folder."""

import json
import re
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.evaluation import evaluate
from candlelight.evaluation.intrinsic import psnr
from candlelight.evaluation.models.retinex import BASELINES
from candlelight.evaluation.run.evaluate import find_evaluation
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.views import DecomposedImage
from candlelight.loaders.errors import InputError

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
    assert found["image"].about.settings == {"peak": 2.0, "missing": "error"}


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
    steps = [FinishedSteps(tmp_path / "steps") for _ in range(2)]
    first, second = (
        evaluate("psnr.py:psnr", view, ["retinex"], device="cpu", batch_size=2, steps=one) for one in steps
    )
    assert steps[1].reused == 9  # three batches of the model and both controls
    assert {name: one.to_json() for name, one in first.items()} == {
        name: one.to_json() for name, one in second.items()
    }


@pytest.mark.usefixtures("own")
def test_the_command_is_made_of_the_record(tmp_path) -> None:
    told = CliRunner().invoke(main, ["evaluate", "psnr.py:psnr", "--help"])
    assert told.exit_code == 0, told.output
    assert "Measure the peak signal-to-noise ratio of reflectance." in told.output
    assert re.search(
        r"--peak FLOAT RANGE +Largest value of the data\.\s+\[default: 1\.0;\s+x>0\]", told.output
    )
    assert "--predictions" in told.output
    refused = CliRunner().invoke(main, ["evaluate", "psnr.py:psnr", "data", "--peak", "0"])
    assert "0.0 is not in the range x>0" in refused.output
    again = CliRunner().invoke(main, ["evaluate", "psnr.py:psrn", "data"])
    assert (again.exit_code, again.output.count("\n")) == (2, 1)
    assert "expected an `Evaluation` named `psrn`, got none; did you mean `psnr`?" in again.output


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
    with pytest.raises(InputError) as caught:
        evaluate("psnr.py:psnr", view, ["retinex"], **options)
    assert str(caught.value) == message


def test_the_name_of_a_control_is_taken(view) -> None:
    with pytest.raises(InputError, match="model `gray`: the name is that of a control"):
        evaluate("constancy", view, {"gray": lambda image: (image, image)})
    with pytest.raises(
        InputError, match=r"evaluation `lsme` is not known; expected one of lmse, .*did you mean"
    ):
        find_evaluation("lsme")
