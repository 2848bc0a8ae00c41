"""Recipes, plans and rendering of image sets in which exactly one thing changes.

Importing this package imports neither Blender nor torch.
"""

from generators.engine.render_plan import render as render
from generators.language.load_recipe import load_recipe as load_recipe
from generators.language.recipe import Recipe as Recipe
from generators.planning.interventions import condition as condition
from generators.planning.interventions import counterfactual as counterfactual
from generators.planning.interventions import do as do
from generators.planning.inverse_propensity import inverse_propensity_weights as inverse_propensity_weights
from generators.planning.plan import Plan as Plan
from generators.planning.plan import make_plan as make_plan
