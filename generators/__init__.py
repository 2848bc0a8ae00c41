"""Recipes, plans and rendering of image sets in which exactly one thing changes.

Importing this package brings neither Blender nor torch.
"""

from generators.counterfactual import counterfactual as counterfactual
from generators.load import load_recipe as load_recipe
from generators.plan import Plan as Plan
from generators.plan import condition as condition
from generators.plan import do as do
from generators.plan import make_plan as make_plan
from generators.propensity import inverse_propensity as inverse_propensity
from generators.recipe import Recipe as Recipe
from generators.rendering import render as render
