"""The catalogue of the shipped evaluations: their names, options and records, without torch.

An evaluation of one's own needs no entry: ``candlelight evaluate file.py:name`` finds its record.
"""

from typing import NamedTuple

from candlelight.evaluation.catalogue import causal_options as causal
from candlelight.evaluation.catalogue import concepts_options as concepts
from candlelight.evaluation.catalogue import coverage_options as coverage
from candlelight.evaluation.catalogue import intrinsic_options as intrinsic
from candlelight.evaluation.catalogue import perception_options as perception


class Entry(NamedTuple):
    """One evaluation of the catalogue.

    Attributes:
        record: ``module:name`` of the record.
        options: dataclass of its options, whose docstring is the help of the command.
        metric: name of the metric in results.
    """

    record: str
    options: type
    metric: str


_INTRINSIC = "candlelight.evaluation.intrinsic"
_CONCEPTS = "candlelight.evaluation.concepts"
_CAUSAL = "candlelight.evaluation.causal"
_COVERAGE = "candlelight.evaluation.coverage"
_PERCEPTION = "candlelight.evaluation.perception"
CATALOGUE = {
    "lmse": Entry(f"{_INTRINSIC}.intrinsic_records:LMSE", intrinsic.LMSEOptions, "lmse"),
    "layer": Entry(f"{_INTRINSIC}.layer_records:ONE_LAYER", intrinsic.OneLayerOptions, "layer"),
    "normals": Entry(f"{_INTRINSIC}.layer_records:NORMALS", intrinsic.NormalsOptions, "normals"),
    "depth": Entry(f"{_INTRINSIC}.layer_records:DEPTH", intrinsic.DepthOptions, "depth"),
    "whdr": Entry(f"{_INTRINSIC}.intrinsic_records:WHDR", intrinsic.WHDROptions, "whdr"),
    "saw": Entry(f"{_INTRINSIC}.intrinsic_records:SAW_PRECISION", intrinsic.SAWOptions, "saw_ap"),
    "maw": Entry(f"{_INTRINSIC}.intrinsic_records:MAW_ERROR", intrinsic.MAWOptions, "maw"),
    "constancy": Entry(f"{_INTRINSIC}.intrinsic_records:CONSTANCY", intrinsic.ConstancyOptions, "constancy"),
    "leaks": Entry(f"{_INTRINSIC}.leaks:LEAKS", intrinsic.LeaksOptions, "leaks"),
    "methods": Entry(f"{_INTRINSIC}.score_methods:METHODS_OF_2009", intrinsic.MethodsOptions, "lmse"),
    "protocols": Entry(f"{_INTRINSIC}.score_protocols:EVERY_PROTOCOL", intrinsic.ProtocolsOptions, ""),
    "csm": Entry(f"{_CONCEPTS}.score_csm:CONCEPT_SENSITIVITY", concepts.CSMOptions, "csm"),
    "tcav": Entry(f"{_CONCEPTS}.score_tcav:TCAV", concepts.TCAVOptions, "tcav"),
    "codes": Entry(f"{_CAUSAL}.score_codes:CODES", causal.CodesOptions, "codes"),
    "graph": Entry(f"{_CAUSAL}.score_graphs:GRAPH", causal.GraphOptions, "graph"),
    "generativeness": Entry(
        f"{_CAUSAL}.score_generativeness:GENERATIVENESS", causal.GenerativenessOptions, "generativeness"
    ),
    "counterfactuals": Entry(
        f"{_CAUSAL}.score_counterfactuals:RENDERED_COUNTERFACTUALS",
        causal.CounterfactualsOptions,
        "counterfactuals",
    ),
    "effects": Entry(f"{_CAUSAL}.score_effects:EFFECTS", causal.EffectsOptions, "effects"),
    "axioms": Entry(f"{_CAUSAL}.score_axioms:AXIOMS", causal.AxiomsOptions, "axioms"),
    "coverage": Entry(f"{_COVERAGE}.score_coverage:COVERAGE", coverage.CoverageOptions, "waiou"),
    "causal-check": Entry(
        f"{_COVERAGE}.score_causal_check:CAUSAL_CHECK", coverage.CausalCheckOptions, "causal_check"
    ),
    "removal": Entry(f"{_COVERAGE}.score_removal:REMOVAL", coverage.RemovalOptions, "removal"),
    "transforms": Entry(
        f"{_PERCEPTION}.score_perception:TRANSFORMS", perception.TransformsOptions, "perception"
    ),
    "moved-frames": Entry(
        f"{_PERCEPTION}.score_perception:MOVED_FRAMES", perception.MovedFramesOptions, "perception"
    ),
    "raid": Entry(f"{_PERCEPTION}.raid_agreement:RAID", perception.RaidOptions, "raid"),
}
RECORDS = {name: entry.record for name, entry in CATALOGUE.items()}
