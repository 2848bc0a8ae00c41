"""Plans with own code: arguments, hashes, permission, and the copies of the code beside the frames."""

import json
import shutil

import pytest

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.engine.dataset_description import copy_code, dataset_info, describe_folder
from candlelight.generators.language.load_recipe import load_recipe, recipe_sha256, revise
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.planning.plan_table import load_plan, save_plan
from candlelight.generators.planning.provenance import EditedAssetError, check_group
from candlelight.generators.scenes.plan_records import keyword_arguments
from candlelight.loaders.files.object_stores import open_store
from candlelight.loaders.verification.checksums import SUMS
from candlelight.loaders.verification.verify_frames import check_description, verify
from candlelight.loaders.verification.verify_store import verify_store
from tests.refusals import refused

RECIPE = {
    "name": "knots",
    "sets": {
        "knots": {
            "factors": {
                "turns": {"values": [2, 3]},
                "twist": {"low": 0, "high": 1},
                "paint": {"values": ["red", "paint.py:rust"], "assets": "materials"},
            },
            "layout": {
                "objects": [
                    {
                        "build": "knots/knots.py:trefoil",
                        "numbers": {"turns": "$turns", "twist": "$twist", "style": "round"},
                        "material": {"build": "paint.py:rust", "numbers": {"style": 2}},
                        "parts": {"end": "$paint", "band": "own.py:gold"},
                    },
                    {"type": "cube", "material": "$paint", "location": [1, 0]},
                ],
                "camera": {"location": [0, 5, 2], "look_at": [0, 0, 0.5]},
            },
        }
    },
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "code" / "knots").mkdir(parents=True)
    for name, text in (("knots/knots", "import curves"), ("knots/curves", ""), ("paint", ""), ("own", "")):
        (tmp_path / "code" / f"{name}.py").write_text(f"{text}\n")
    return tmp_path / "code"


@pytest.fixture
def plan(folder):
    return make_plan(load_recipe(RECIPE, assets={"code": folder}))


def test_plans_hold_labels_and_arguments(plan, tmp_path):
    knot, cube = plan.samples[1].trace.objects
    twist = plan.samples[1].factors["twist"]
    assert knot.type == "knots/knots.py:trefoil"
    # A number without fraction is an int for the function.
    found = keyword_arguments(knot.numbers)
    assert found == {"style": "round", "turns": 2, "twist": twist}
    assert isinstance(found["turns"], int)
    assert (knot.material.label, keyword_arguments(knot.material.numbers)) == ("paint.py:rust", {"style": 2})
    parts = [(part.name, part.material.label) for part in knot.parts]
    assert parts == [("band", "own.py:gold"), ("end", "paint.py:rust")]
    assert cube.material.label == "paint.py:rust"
    assert "numbers" not in cube.model_dump()
    save_plan(plan, tmp_path / "plan.parquet")
    again = load_plan(tmp_path / "plan.parquet", plan.recipe.assets)
    assert again == plan
    check_group(next(iter(again.groups.values())), AssetLibrary(plan.recipe.assets))


def test_numbers_and_source_decide_the_trace_group(plan, folder):
    library = AssetLibrary(plan.recipe.assets)
    assert {one.label for one in plan.assets if one.kind == "code"} == {
        *("knots/knots.py:trefoil", "own.py:gold", "paint.py:rust")
    }
    assert len({sample.group for sample in plan.samples}) == 4
    sample = plan.samples[0]
    check_group([sample], library)
    turned = sample.trace.objects[0].model_copy(update={"numbers": ()})
    changed = sample.trace.model_copy(update={"objects": (turned, *sample.trace.objects[1:])})
    with refused("differ from the plan", EditedAssetError):
        check_group([sample.model_copy(update={"trace": changed})], library)
    (folder / "knots" / "curves.py").write_text("turns = 3\n")
    library.look_again()
    with refused("differ from the plan", EditedAssetError):
        check_group([sample], library)


def test_recipes_without_code_keep_their_hash():
    recipe = load_recipe("candle")
    written = json.loads(recipe.model_dump_json())["sets"]["candle"]["layout"]["objects"][0]
    assert not written.keys() & {"build", "numbers"}
    with_code = {"build": "a.py:f", "location": (1, 1)}
    other = revise(load_recipe(RECIPE), seed=1).model_dump(mode="json")
    other["sets"]["knots"]["layout"]["objects"] = [with_code]
    assert recipe_sha256(load_recipe(other)) != recipe_sha256(load_recipe({**other, "seed": 2}))


def test_code_without_permission_is_not_run(folder):
    (folder / "paint.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n")
    with refused(r"`paint.py:rust` is Python code, which runs only if you allow it: `run_code`"):
        make_plan(load_recipe(RECIPE))
    make_plan(load_recipe(RECIPE, assets={"code": folder}))  # a plan runs none either
    assert not (folder / "ran").exists()


def test_code_outside_its_folder_is_refused(folder):
    for label in ("../paint.py:rust", "../knots/knots.py:f", str(folder / "paint.py:rust")):
        recipe = load_recipe(RECIPE).model_dump(mode="json", exclude={"assets"})
        recipe["sets"]["knots"]["factors"].pop("paint")
        recipe["sets"]["knots"]["layout"]["objects"] = [{"build": label}]
        with refused(r"objects\.0\.build: `.*` lies outside its folder"):
            make_plan(load_recipe(recipe, assets={"code": folder / "knots"}))


# -------------------------------------------------------------------------- the code beside the frames


@pytest.fixture
def out(plan, tmp_path, folder):
    (out := tmp_path / "frames").mkdir()
    (folder / "unused.py").write_text("")
    describe_folder(plan, out)
    copy_code(out, plan.recipe)
    return out


def names(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_the_code_of_a_plan_is_copied_with_its_checksums(plan, out, folder):
    copied = ["knots/curves.py", "knots/knots.py", "own.py", "paint.py"]
    assert names(out / "code") == [SUMS, *copied]
    assert all((out / "code" / name).read_bytes() == (folder / name).read_bytes() for name in copied)
    assert check_description(out)[0] == []
    assert verify(out).strangers == ()
    # The plan beside the frames and the copied code are the whole plan again.
    again = load_plan(out / "plan.parquet", {"code": out / "code"})
    assert again.samples == plan.samples
    describe_folder(again, out)
    copy_code(out, again.recipe)
    assert dataset_info(again).assets == dataset_info(plan).assets


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda code: (code / "own.py").write_text("x = 1\n"), "own.py: differs from its line in SHA256SUMS"),
        (lambda code: (code / "own.py").unlink(), "own.py: is missing"),
        (
            lambda code: (code / "knots" / "curves.py").unlink(),
            "SHA256SUMS: has more than the expected lines",
        ),
        (lambda code: (code / "added.py").write_text(""), "added.py: differs from its line in SHA256SUMS"),
        (shutil.rmtree, "SHA256SUMS: is missing"),
    ],
)
def test_damaged_copies_are_found_and_mended(plan, out, folder, damage, reason):
    damage(out / "code")
    assert reason in [f"{one.path.name}: {one.reason}" for one in verify(out).damaged]
    copy_code(out, plan.recipe)
    (out / "code" / "added.py").unlink(missing_ok=True)
    assert verify(out).damaged == ()


def test_copies_at_a_url_are_checked(out):
    assert verify_store(open_store(f"file://{out}")).damaged == ()
    (out / "code" / "knots" / "curves.py").write_text("x = 1\n")
    (damage,) = verify_store(open_store(f"file://{out}")).damaged
    assert str(damage) == "code/knots/curves.py: differs from its line in SHA256SUMS"


def test_changed_code_is_refused_in_a_folder_of_frames(out, folder):
    (folder / "knots" / "curves.py").write_text("turns = 3\n")
    changed = make_plan(load_recipe(RECIPE, assets={"code": folder}))
    with refused("was made with another `knots/knots.py:trefoil` of code .* or name another output folder"):
        describe_folder(changed, out)
    with refused("output folder .*: `knots/knots.py:trefoil` is Python code, which runs only if you allow"):
        describe_folder(load_plan(out / "plan.parquet"), out)
