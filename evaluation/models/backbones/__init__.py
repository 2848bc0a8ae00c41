"""Classifiers with convolutional layers, for methods that explain their predictions."""

from evaluation.models.backbones.backbone import Backbone as Backbone
from evaluation.models.backbones.build_backbone import BackboneName as BackboneName
from evaluation.models.backbones.build_backbone import build_backbone as build_backbone
from evaluation.models.backbones.build_backbone import load_backbone as load_backbone
