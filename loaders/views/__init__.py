"""Views: the part of a data set that an evaluation reads, the same for every kind of data.

Each function opens PATH, LAYOUT:PATH, hf:NAME or a reader. Rows are chosen and named before an image is read.
"""

from loaders.views.chosen_rows import parse_rows as parse_rows
from loaders.views.concept_view import open_concepts as open_concepts
from loaders.views.counterfactual_view import BACKGROUND_REGION as BACKGROUND_REGION
from loaders.views.counterfactual_view import CounterfactualImages as CounterfactualImages
from loaders.views.counterfactual_view import open_counterfactuals as open_counterfactuals
from loaders.views.data_source import parse_data as parse_data
from loaders.views.data_source import split_secondary as split_secondary
from loaders.views.decomposition_view import open_decompositions as open_decompositions
from loaders.views.factor_view import open_factors as open_factors
from loaders.views.image_view import open_images as open_images
from loaders.views.judgement_view import open_judgements as open_judgements
from loaders.views.match_controls import match_controls as match_controls
from loaders.views.moved_view import MovedImages as MovedImages
from loaders.views.moved_view import has_moves as has_moves
from loaders.views.moved_view import open_moved_images as open_moved_images
from loaders.views.pair_view import open_pairs as open_pairs
from loaders.views.part_view import open_parts as open_parts
from loaders.views.public_rows import LAYOUTS as LAYOUTS
from loaders.views.region_view import open_regions as open_regions
from loaders.views.synthetic_judgements import synthetic_comparisons as synthetic_comparisons
from loaders.views.synthetic_judgements import synthetic_labels as synthetic_labels
from loaders.views.view_items import Comparisons as Comparisons
from loaders.views.view_items import ConceptSet as ConceptSet
from loaders.views.view_items import DataIdentity as DataIdentity
from loaders.views.view_items import DecomposedImage as DecomposedImage
from loaders.views.view_items import JudgedImage as JudgedImage
from loaders.views.view_items import PartImage as PartImage
from loaders.views.view_items import RatedPair as RatedPair
from loaders.views.view_items import RegionImage as RegionImage
from loaders.views.view_protocols import ConceptSets as ConceptSets
from loaders.views.view_protocols import Decompositions as Decompositions
from loaders.views.view_protocols import Factors as Factors
from loaders.views.view_protocols import Images as Images
from loaders.views.view_protocols import Judgements as Judgements
from loaders.views.view_protocols import Parts as Parts
from loaders.views.view_protocols import RatedPairs as RatedPairs
from loaders.views.view_protocols import Regions as Regions
from loaders.views.view_protocols import View as View
