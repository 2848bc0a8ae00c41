"""Metrics of disentangled representations: interventional robustness, unconfoundedness and DCI."""

from evaluation.causal.codes import layer_codes as layer_codes
from evaluation.causal.dci import dci as dci
from evaluation.causal.dci_fast import dci_fast as dci_fast
from evaluation.causal.dci_from_classifiers import DCI as DCI
from evaluation.causal.dci_from_classifiers import dci_from_classifiers as dci_from_classifiers
from evaluation.causal.irs import IRS as IRS
from evaluation.causal.irs import irs as irs
from evaluation.causal.score_causal import score_causal as score_causal
from evaluation.causal.unconfoundedness import unconfoundedness as unconfoundedness
