"""Causal metrics of disentangled representations: codes of factors, and counterfactual images of codes."""

from evaluation.causal.baseline_codes import baseline_codes as baseline_codes
from evaluation.causal.codes import layer_codes as layer_codes
from evaluation.causal.counterfactual_axioms import composition as composition
from evaluation.causal.counterfactual_axioms import effectiveness as effectiveness
from evaluation.causal.counterfactual_axioms import reversibility as reversibility
from evaluation.causal.counterfactual_generativeness import (
    CounterfactualGenerativeness as CounterfactualGenerativeness,
)
from evaluation.causal.counterfactual_generativeness import (
    counterfactual_generativeness as counterfactual_generativeness,
)
from evaluation.causal.interventional_effects import ace as ace
from evaluation.causal.interventional_effects import ice as ice
from evaluation.causal.irs import IRS as IRS
from evaluation.causal.irs import irs as irs
from evaluation.causal.score_causal import score_causal as score_causal
from evaluation.causal.select_codes import select_codes as select_codes
from evaluation.causal.unconfoundedness import unconfoundedness as unconfoundedness
