"""Rendered frames of `parts-recoloured`: one region changes, and the causal check reads them."""

import pytest

pytestmark = pytest.mark.blender

RECIPE = """
name: houses
image: {width: 40, height: 40}
render: {samples: 2, bounces: 1, denoise: false}
layers: [image, object, part]
sets:
  house:
    extends: parts-recoloured/house
    factors: {class: {assets: objects, values: [tower]}}
    draws: 2
    do: {scene: garden}
  changed:
    counterfactual:
      of: house
      do: [{recoloured: roof}, {recoloured: walls}, {scene: studio}, {scene: garden}]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, render_recipe):
    """Render two towers, and each of them with another roof, with other walls and in two scenes."""
    root = tmp_path_factory.mktemp("recoloured")
    render_recipe(root, RECIPE)
    return root / "frames"


def test_a_counterfactual_changes_its_region_most(folder):
    from candlelight.evaluation.views import open_data  # needs torch, unlike the other tests of this folder

    view = open_data("counterfactuals", folder)
    assert view.ids == ("house-000000", "house-000001")
    for item in (view[0], view[1]):
        # The scene that a frame has already is no change.
        assert {name: len(images) for name, images in item.changed.items()} == {
            "roof": 1,
            "walls": 1,
            "background": 1,
        }
        for part in ("roof", "walls"):
            difference = (item.changed[part][0] - item.image).abs().amax(0)
            inside = difference[item.masks[part]].mean()
            assert inside > 0.1
            assert inside > 5 * difference[~item.masks[part]].mean()
        difference = (item.changed["background"][0] - item.image).abs().amax(0)
        assert difference[item.masks["background"]].mean() > 0.03


def test_the_causal_check_finds_the_part_that_a_classifier_looks_at(folder):
    import torch

    from candlelight.evaluation import evaluate
    from candlelight.evaluation.coverage import ExplainedImages
    from candlelight.evaluation.views import open_data

    view = open_data("counterfactuals", folder, limit=1)
    roof = view[0].masks["roof"]

    def classify(images):
        green = images[:, 1, roof].mean(1)
        return torch.stack([5 * green, torch.zeros(len(images))], 1)

    methods = {
        name: lambda images, name=name: view[0].masks[name].float().expand(len(images), 1, 40, 40)
        for name in ("roof", "walls")
    }
    results = evaluate("causal-check", ExplainedImages(view, classify), methods, pixels="region")
    agreement = {name: result.scores["agreement"].value for name, result in results.items()}
    assert agreement == pytest.approx({"roof": 1.0, "walls": -0.5})
    assert results["roof"].scores["hit_rate"].value == 1
    sizes = {one["region"]: one["effect_size"][0] for one in results["roof"].details["regions"]}
    assert sizes["roof"] > 0.05
    assert sizes["walls"] == pytest.approx(0, abs=1e-6)
