import math
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from candlelight.evaluation.concepts.sensitivity import Target, parse_target
from tests.refusals import refused


@given(st.integers(0, 4), st.booleans())
def test_logit_is_a_column(number, is_loss):
    output = torch.arange(15.0).reshape(3, 5)
    target = parse_target(f"{'loss:' if is_loss else ''}logit:{number}")
    assert target.values(output, 3).tolist() == output[:, number].tolist()
    assert target.gradient_of == ("loss" if is_loss else "logit")


def test_norm_is_over_all_axes_but_the_first():
    output = torch.stack([torch.full((2, 3, 4), 2.0), torch.zeros(2, 3, 4)]).requires_grad_()
    values = parse_target("norm").values(output, 2)
    assert values.tolist() == pytest.approx([2 * math.sqrt(24), 0])
    (gradient,) = torch.autograd.grad(values.sum(), output)
    torch.testing.assert_close(gradient[0], torch.full((2, 3, 4), 1 / math.sqrt(24)))
    assert (gradient[1] == 0).all()  # and not nan


def test_function_of_a_file(tmp_path):
    (tmp_path / "helper.py").write_text("FACTOR = 3\n")
    path = tmp_path / "measure.py"
    path.write_text("from helper import FACTOR\ndef third(output):\n    return FACTOR * output[1][:, 0]\n")
    target = parse_target(f"loss:{path}:third")
    assert (target.gradient_of, len(target.sha256)) == ("loss", 64)
    assert target.values((None, torch.tensor([[1.0], [2.0]])), 2).tolist() == [3, 6]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loss:", "target `loss:`: expected logit:K"),
        ("logit:1.5", "expected logit:K with the number K of a class, norm, or FILE.py:FUNCTION; with loss:"),
        ("loss:loss:norm", "target `loss:loss:norm`: expected"),
        ("nowhere.py:f", "there is no nowhere.py"),
    ],
)
def test_texts_of_another_form(text, message):
    with refused(f"^[^\n]*{re.escape(message)}[^\n]*$"):
        parse_target(text)


@pytest.mark.parametrize(
    ("text", "output", "message"),
    [
        ("logit:1", torch.ones(2, 1), r"with a class 1, counted from 0, got float32 \[2, 1\]"),
        ("logit:0", torch.ones(2, 3, 4, 4), r"expected an output \[batch, classes\]"),
        ("logit:0", (torch.ones(2, 3),), r"got tuple of float32 \[2, 3\]"),
        ("norm", torch.ones(2), r"expected an output \[batch, ...\], got float32 \[2\]"),
        ("norm", {"image": torch.ones(2, 3)}, r"got \{image: float32 \[2, 3\]\}; write FILE.py:FUNCTION"),
    ],
)
def test_outputs_that_do_not_fit(text, output, message):
    with refused(message):
        parse_target(text).values(output, 2)


@pytest.mark.parametrize(
    ("function", "got"),
    [
        (lambda output: output.sum(), r"float32 \[\]"),
        (lambda output: output.argmax(1), r"int64 \[2\]"),
        (lambda output: output[:, 0].numpy(), "ndarray"),
    ],
)
def test_functions_give_one_number_for_each_image(function, got):
    with refused(rf"target `own`: expected one number .* a floating-point tensor \[2\], got {got}; reduce"):
        Target("own", function).values(torch.ones(2, 3), 2)
