"""Views: the part of a data set that an evaluation reads, the same for every kind of data.

Each function opens PATH, LAYOUT:PATH, hf:NAME or a reader. Rows are chosen and named before an image is read.
"""

from candlelight.loaders.views.chosen_rows import parse_rows as parse_rows
from candlelight.loaders.views.concept_view import open_concepts as open_concepts
from candlelight.loaders.views.counterfactual_view import BACKGROUND_REGION as BACKGROUND_REGION
from candlelight.loaders.views.counterfactual_view import CounterfactualImages as CounterfactualImages
from candlelight.loaders.views.counterfactual_view import open_counterfactuals as open_counterfactuals
from candlelight.loaders.views.data_source import parse_data as parse_data
from candlelight.loaders.views.data_source import split_secondary as split_secondary
from candlelight.loaders.views.decomposition_view import open_decompositions as open_decompositions
from candlelight.loaders.views.factor_view import open_factors as open_factors
from candlelight.loaders.views.image_view import open_images as open_images
from candlelight.loaders.views.judgement_view import open_judgements as open_judgements
from candlelight.loaders.views.match_controls import match_controls as match_controls
from candlelight.loaders.views.moved_view import MovedImages as MovedImages
from candlelight.loaders.views.moved_view import has_moves as has_moves
from candlelight.loaders.views.moved_view import open_moved_images as open_moved_images
from candlelight.loaders.views.pair_view import open_pairs as open_pairs
from candlelight.loaders.views.part_view import open_parts as open_parts
from candlelight.loaders.views.picture_groups import PictureGroups as PictureGroups
from candlelight.loaders.views.picture_groups import read_picture_groups as read_picture_groups
from candlelight.loaders.views.public_rows import LAYOUTS as LAYOUTS
from candlelight.loaders.views.region_view import open_regions as open_regions
from candlelight.loaders.views.synthetic_judgements import synthetic_comparisons as synthetic_comparisons
from candlelight.loaders.views.synthetic_judgements import synthetic_labels as synthetic_labels
from candlelight.loaders.views.view_items import Comparisons as Comparisons
from candlelight.loaders.views.view_items import ConceptSet as ConceptSet
from candlelight.loaders.views.view_items import DataIdentity as DataIdentity
from candlelight.loaders.views.view_items import DecomposedImage as DecomposedImage
from candlelight.loaders.views.view_items import JudgedImage as JudgedImage
from candlelight.loaders.views.view_items import PartImage as PartImage
from candlelight.loaders.views.view_items import RatedPair as RatedPair
from candlelight.loaders.views.view_items import RegionImage as RegionImage
from candlelight.loaders.views.view_protocols import ConceptSets as ConceptSets
from candlelight.loaders.views.view_protocols import Decompositions as Decompositions
from candlelight.loaders.views.view_protocols import Factors as Factors
from candlelight.loaders.views.view_protocols import Images as Images
from candlelight.loaders.views.view_protocols import Judgements as Judgements
from candlelight.loaders.views.view_protocols import Parts as Parts
from candlelight.loaders.views.view_protocols import RatedPairs as RatedPairs
from candlelight.loaders.views.view_protocols import Regions as Regions
from candlelight.loaders.views.view_protocols import View as View
