"""Train a network to decompose images, with full, partial or no supervision."""

from evaluation.training.regimes import Regime as Regime
from evaluation.training.supervised_loss import intrinsic_loss as intrinsic_loss
from evaluation.training.train_intrinsic import History as History
from evaluation.training.train_intrinsic import train_intrinsic as train_intrinsic
