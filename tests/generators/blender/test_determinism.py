"""A sample has the same bytes in any order, with any other samples, workers and threads."""

from dataclasses import replace

import pytest

from candlelight.generators.engine.render_plan import render
from candlelight.generators.planning.planned_samples import compress_samples

pytestmark = pytest.mark.blender


def test_reverse_order_in_one_process_with_two_threads(probe, probe_plan, files_of, tmp_path):
    backwards = replace(probe_plan, samples=probe_plan.samples[::-1])
    outcome = render(backwards, tmp_path / "out", workers=1, threads=2)
    assert outcome.written == len(probe_plan)
    assert files_of(tmp_path / "out") == files_of(probe)
    assert len(files_of(probe)) == 4 * len(probe_plan)


@pytest.mark.parametrize(
    ("set_name", "values"),
    [
        # This sample shares its trace with two others, which are not written.
        ("concepts", {"texturing": "textured", "paint": 1, "light_azimuth": 70, "temperature": 4500}),
        ("catcher", {"lights": "right"}),
    ],
)
def test_a_single_sample(probe, probe_plan, files_of, tmp_path, set_name, values):
    samples = compress_samples(
        s for s in probe_plan.samples if s.set == set_name and values.items() <= s.factors.items()
    )
    assert len(samples) == 1
    render(replace(probe_plan, samples=samples), tmp_path / "out", workers=1)
    alone = files_of(tmp_path / "out")
    assert len(alone) == 4
    assert alone.items() <= files_of(probe).items()


def test_a_limit_does_not_change_the_samples_that_it_keeps(probe, probe_plan, files_of, tmp_path):
    limited = probe_plan.limit(1)
    render(limited, tmp_path / "out", workers=2)
    some = files_of(tmp_path / "out")
    assert len(some) == 4 * len(limited) < 4 * len(probe_plan)
    assert some.items() <= files_of(probe).items()
