"""Recipes, plans and rendering of image sets in which exactly one thing changes.

Importing this package imports neither Blender nor torch.
"""

if __name__ != "candlelight.generators":
    raise ImportError(f"`{__name__}` is a part of candlelight: import `candlelight.generators`")

from candlelight.generators.engine.render_plan import render as render
from candlelight.generators.language.load_recipe import load_recipe as load_recipe
from candlelight.generators.language.recipe import Recipe as Recipe
from candlelight.generators.planning.interventions import condition as condition
from candlelight.generators.planning.interventions import counterfactual as counterfactual
from candlelight.generators.planning.interventions import do as do
from candlelight.generators.planning.inverse_propensity import (
    inverse_propensity_weights as inverse_propensity_weights,
)
from candlelight.generators.planning.plan import Plan as Plan
from candlelight.generators.planning.plan import make_plan as make_plan
