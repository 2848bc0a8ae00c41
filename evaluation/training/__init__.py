"""Train a network to decompose images or to tell classes apart, or fine-tune one against a concept."""

from evaluation.training.concept_loss import concept_loss as concept_loss
from evaluation.training.factor_labels import factor_labels as factor_labels
from evaluation.training.factor_labels import label_values as label_values
from evaluation.training.fine_tune import TuningHistory as TuningHistory
from evaluation.training.fine_tune import fine_tune as fine_tune
from evaluation.training.prototypes import fit_prototypes as fit_prototypes
from evaluation.training.prototypes import prototype_loss as prototype_loss
from evaluation.training.regimes import Regime as Regime
from evaluation.training.small_rows import SmallRows as SmallRows
from evaluation.training.supervised_loss import intrinsic_loss as intrinsic_loss
from evaluation.training.train_classifier import ClassifierHistory as ClassifierHistory
from evaluation.training.train_classifier import train_classifier as train_classifier
from evaluation.training.train_factor_heads import FactorHistory as FactorHistory
from evaluation.training.train_factor_heads import train_factor_heads as train_factor_heads
from evaluation.training.train_intrinsic import History as History
from evaluation.training.train_intrinsic import train_intrinsic as train_intrinsic
from evaluation.training.training_record import hold_out as hold_out
from evaluation.training.training_record import write_record as write_record
