"""The commands ``candlelight recipes``: list, show and check recipes."""

from pathlib import Path

import click

from candlelight.generators.commands.plan_commands import (
    assets_option,
    load_any_plan,
    set_option,
    tell_draws,
)
from candlelight.loaders.errors import InputError
from candlelight.loaders.foreign_text import printable


@click.group(invoke_without_command=True)
@click.pass_context
def recipes(ctx: click.Context) -> None:
    """List the shipped recipes; show or check one, or describe the fields.

    \b
    candlelight recipes
    candlelight recipes fields lights
    candlelight recipes show candle > mine.yaml
    candlelight recipes validate mine.yaml --set image.width=64
    """
    from candlelight.generators import load_recipe
    from candlelight.generators.language.load_recipe import shipped_recipes

    if ctx.invoked_subcommand is None:
        formatter = click.HelpFormatter(width=100)
        formatter.write_dl([(name, load_recipe(name).description) for name in shipped_recipes()])
        click.echo(formatter.getvalue(), nl=False)


@recipes.command()
@click.argument("recipe")
def show(recipe: str) -> None:
    """Print a recipe's YAML, to copy and change.

    \b
    candlelight recipes show concepts > mine.yaml
    """
    from candlelight.generators.language.load_recipe import recipe_text

    click.echo(recipe_text(recipe), nl=False)


@recipes.command()
@click.argument("recipe")
@set_option
@assets_option
def validate(recipe: str, overrides: tuple[str, ...], assets: dict[str, Path]) -> None:
    """Check a recipe down to the last asset and number, and say what it would make.

    Assets in your own folders are opened in Blender, without rendering.

    \b
    candlelight recipes validate mine.yaml --set seed=3
    """
    from candlelight.generators.user_assets.asset_folders import open_assets

    plan = load_any_plan(recipe, overrides, assets=assets)
    opened = open_assets(plan)
    found = f"valid, {len(plan)} samples from {len(plan.groups)} traces"
    click.echo(printable(f"{plan.recipe.name}: {found}"))
    if opened is None:
        click.echo(
            "assets of your own were not opened, because bpy is not installed here; `render` opens them"
        )
    elif opened:
        click.echo(f"{opened} assets of your own were opened in Blender")
    tell_draws(plan)


@recipes.command()
@click.argument("name", default="")
@click.option("--page", is_flag=True, help="Print all fields as the page docs/recipe-fields.md.")
def fields(name: str, page: bool) -> None:
    """Describe the fields of a recipe: meaning, type, unit, default and an example of each.

    NAME is one field, to see only it and the fields below it.

    \b
    candlelight recipes fields
    candlelight recipes fields lights
    candlelight recipes fields camera.location
    """
    from candlelight.generators.language.recipe_fields import describe_fields, fields_page

    if name and page:
        raise InputError("--page prints all fields; expected no NAME")
    click.echo(fields_page() if page else describe_fields(name), nl=not page)
