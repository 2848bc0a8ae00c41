"""Train a network to decompose images, tell classes apart or encode factors; fine-tune one by a concept."""

from candlelight.loaders.errors import require_module

require_module("torch")

from candlelight.evaluation.catalogue.training_options import CausalModel as CausalModel
from candlelight.evaluation.catalogue.training_options import CausalTraining as CausalTraining
from candlelight.evaluation.catalogue.training_options import ClassifierTraining as ClassifierTraining
from candlelight.evaluation.catalogue.training_options import ConceptTuning as ConceptTuning
from candlelight.evaluation.catalogue.training_options import IntrinsicTraining as IntrinsicTraining
from candlelight.evaluation.catalogue.training_options import LabelTraining as LabelTraining
from candlelight.evaluation.catalogue.training_options import Regime as Regime
from candlelight.evaluation.training.causal_data import foreground_weights as foreground_weights
from candlelight.evaluation.training.fine_tune import TuningHistory as TuningHistory
from candlelight.evaluation.training.fine_tune import concept_loss as concept_loss
from candlelight.evaluation.training.fine_tune import fine_tune as fine_tune
from candlelight.evaluation.training.fine_tune import fit_prototypes as fit_prototypes
from candlelight.evaluation.training.fine_tune import prototype_loss as prototype_loss
from candlelight.evaluation.training.loop import write_record as write_record
from candlelight.evaluation.training.losses import bernoulli_error as bernoulli_error
from candlelight.evaluation.training.losses import density_ratio as density_ratio
from candlelight.evaluation.training.losses import dip_penalty as dip_penalty
from candlelight.evaluation.training.losses import discriminator_loss as discriminator_loss
from candlelight.evaluation.training.losses import factor_targets as factor_targets
from candlelight.evaluation.training.losses import gaussian_kl as gaussian_kl
from candlelight.evaluation.training.losses import intrinsic_loss as intrinsic_loss
from candlelight.evaluation.training.losses import permute_codes as permute_codes
from candlelight.evaluation.training.losses import share_posterior as share_posterior
from candlelight.evaluation.training.losses import supervised_codes_loss as supervised_codes_loss
from candlelight.evaluation.training.losses import total_correlation as total_correlation
from candlelight.evaluation.training.train_causal import CausalHistory as CausalHistory
from candlelight.evaluation.training.train_causal import train_causal as train_causal
from candlelight.evaluation.training.train_classifier import ClassifierHistory as ClassifierHistory
from candlelight.evaluation.training.train_classifier import FactorHistory as FactorHistory
from candlelight.evaluation.training.train_classifier import train_classifier as train_classifier
from candlelight.evaluation.training.train_classifier import train_factor_heads as train_factor_heads
from candlelight.evaluation.training.train_intrinsic import History as History
from candlelight.evaluation.training.train_intrinsic import SmallRows as SmallRows
from candlelight.evaluation.training.train_intrinsic import train_intrinsic as train_intrinsic
from candlelight.evaluation.training.training_rows import factor_labels as factor_labels
from candlelight.evaluation.training.training_rows import hold_out as hold_out
from candlelight.evaluation.training.training_rows import label_values as label_values
