"""Causal metrics of disentangled representations: interventional robustness and unconfoundedness."""

from evaluation.causal.codes import layer_codes as layer_codes
from evaluation.causal.irs import IRS as IRS
from evaluation.causal.irs import irs as irs
from evaluation.causal.score_causal import score_causal as score_causal
from evaluation.causal.unconfoundedness import unconfoundedness as unconfoundedness
