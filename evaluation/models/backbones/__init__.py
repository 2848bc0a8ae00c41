"""Classifiers with convolutional layers, for methods that explain their predictions."""

from candlelight.evaluation.models.backbones.backbone import Backbone as Backbone
from candlelight.evaluation.models.backbones.build_backbone import BackboneName as BackboneName
from candlelight.evaluation.models.backbones.build_backbone import build_backbone as build_backbone
from candlelight.evaluation.models.backbones.build_backbone import load_backbone as load_backbone
from candlelight.evaluation.models.backbones.classifier_files import TrainedClassifier as TrainedClassifier
from candlelight.evaluation.models.backbones.classifier_files import is_classifier as is_classifier
from candlelight.evaluation.models.backbones.classifier_files import load_classifier as load_classifier
from candlelight.evaluation.models.backbones.classifier_files import save_classifier as save_classifier
from candlelight.evaluation.models.backbones.factor_heads import FactorHeads as FactorHeads
from candlelight.evaluation.models.backbones.trained_on import TrainedOn as TrainedOn
