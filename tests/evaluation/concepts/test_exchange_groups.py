"""Images of a scene depend on each other: whole scenes are exchanged, or images within a shared scene."""

import pytest
import torch

from candlelight.evaluation.concepts import exchange_derivatives, input_scores, permutation_test
from candlelight.evaluation.concepts.permutation import exchanged_members
from candlelight.loaders.errors import InputError

SCENES = [f"{scene}" for scene in range(4) for _ in range(8)]
OTHERS = [f"other {scene}" for scene in SCENES]


def p_value(seed, groups):
    """Test activations in which scenes differ, and concept and control do not."""
    stream = torch.Generator().manual_seed(seed)
    concept, control = (
        torch.randn(4, 20, generator=stream).repeat_interleave(8, 0) + torch.randn(32, 20, generator=stream)
        for _ in range(2)
    )
    slopes = torch.ones(3, 20)
    found = exchange_derivatives(concept, control, slopes, seed=seed, permutations=199, groups=groups)
    return float(permutation_test(input_scores(found).mean(1)[None]).p_value)


def test_scenes_alone_are_no_concept():
    images, scenes = (
        sum(p_value(seed, groups) <= 0.05 for seed in range(60)) for groups in (None, (SCENES, OTHERS))
    )
    assert images >= 15
    assert scenes <= 7


def test_groups_of_one_set_are_exchanged_whole_and_keep_their_number():
    members = exchanged_members(32, 32, 50, 0, (SCENES, OTHERS)).reshape(51, 8, 8)
    assert torch.equal(members.all(2), members.any(2))
    assert (members.all(2).sum(1) == 4).all()
    assert members[0, :4].all()
    assert len(torch.unique(members[1:, :, 0], dim=0)) > 20


def test_images_of_a_shared_group_are_exchanged_within_it():
    groups = (["a"] * 6 + ["b"] * 3, ["b"] * 5 + ["a"] * 7)
    members = exchanged_members(9, 12, 50, 0, groups)
    names = [*groups[0], *groups[1]]
    in_a = torch.tensor([name == "a" for name in names])
    assert (members[:, in_a].sum(1) == 6).all()
    assert (members[:, ~in_a].sum(1) == 3).all()
    assert len(torch.unique(members, dim=0)) == 51


def test_one_shared_group_is_no_restriction():
    free, shared = (exchanged_members(5, 6, 9, 1, groups) for groups in (None, (["a"] * 5, ["a"] * 6)))
    assert torch.equal(free, shared)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ((list("aabbcc"), list("ddeeff")), r"groups allow 20 different exchanges, so no p-value is possible"),
        ((["a"] * 6, ["b"] * 6), r"groups allow 1 different exchanges"),
        ((["a"] * 6, [*"bcdefg"]), r"groups allow 1 different exchanges"),  # one scene against many
        ((["a"] * 5, ["a"] * 6), r"expected groups of 6 and 6 images, got 5 and 6"),
    ],
)
def test_groups_that_allow_no_test(groups, message):
    with pytest.raises(InputError, match=message):
        exchanged_members(6, 6, 9, 0, groups)
