"""Views: the part of a data set that an evaluation reads, the same for every kind of data.

Each function opens PATH, LAYOUT:PATH, hf:NAME or a reader. Rows are chosen and named before an image is read.
"""

from candlelight.evaluation.views.chosen_rows import parse_rows as parse_rows
from candlelight.evaluation.views.concept_view import open_concepts as open_concepts
from candlelight.evaluation.views.counterfactual_view import BACKGROUND_REGION as BACKGROUND_REGION
from candlelight.evaluation.views.counterfactual_view import CounterfactualImages as CounterfactualImages
from candlelight.evaluation.views.counterfactual_view import open_counterfactuals as open_counterfactuals
from candlelight.evaluation.views.data_source import parse_data as parse_data
from candlelight.evaluation.views.data_source import split_secondary as split_secondary
from candlelight.evaluation.views.decomposition_view import open_decompositions as open_decompositions
from candlelight.evaluation.views.factor_view import open_factors as open_factors
from candlelight.evaluation.views.image_view import open_images as open_images
from candlelight.evaluation.views.judgement_view import open_judgements as open_judgements
from candlelight.evaluation.views.match_controls import match_controls as match_controls
from candlelight.evaluation.views.moved_view import MovedImages as MovedImages
from candlelight.evaluation.views.moved_view import has_moves as has_moves
from candlelight.evaluation.views.moved_view import open_moved_images as open_moved_images
from candlelight.evaluation.views.pair_view import open_pairs as open_pairs
from candlelight.evaluation.views.part_view import open_parts as open_parts
from candlelight.evaluation.views.picture_groups import PictureGroups as PictureGroups
from candlelight.evaluation.views.picture_groups import read_picture_groups as read_picture_groups
from candlelight.evaluation.views.public_rows import LAYOUTS as LAYOUTS
from candlelight.evaluation.views.region_view import open_regions as open_regions
from candlelight.evaluation.views.synthetic_judgements import synthetic_comparisons as synthetic_comparisons
from candlelight.evaluation.views.synthetic_judgements import synthetic_labels as synthetic_labels
from candlelight.evaluation.views.view_items import Comparisons as Comparisons
from candlelight.evaluation.views.view_items import ConceptSet as ConceptSet
from candlelight.evaluation.views.view_items import DataIdentity as DataIdentity
from candlelight.evaluation.views.view_items import DecomposedImage as DecomposedImage
from candlelight.evaluation.views.view_items import JudgedImage as JudgedImage
from candlelight.evaluation.views.view_items import PartImage as PartImage
from candlelight.evaluation.views.view_items import RatedPair as RatedPair
from candlelight.evaluation.views.view_items import RegionImage as RegionImage
from candlelight.evaluation.views.view_protocols import ConceptSets as ConceptSets
from candlelight.evaluation.views.view_protocols import Decompositions as Decompositions
from candlelight.evaluation.views.view_protocols import Factors as Factors
from candlelight.evaluation.views.view_protocols import Images as Images
from candlelight.evaluation.views.view_protocols import Judgements as Judgements
from candlelight.evaluation.views.view_protocols import Parts as Parts
from candlelight.evaluation.views.view_protocols import RatedPairs as RatedPairs
from candlelight.evaluation.views.view_protocols import Regions as Regions
from candlelight.evaluation.views.view_protocols import View as View
