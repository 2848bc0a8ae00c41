"""Section of a report on codes and factors, with counterfactuals and traversals."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial, reduce
from itertools import compress
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.catalogue.record import Page
from candlelight.evaluation.causal.factor_data import FactorColumns
from candlelight.evaluation.causal.factor_table import encode_images
from candlelight.evaluation.causal.generativeness import Decoder, decode_codes
from candlelight.evaluation.causal.score_generativeness import find_decoders
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.report.blocks import (
    Block,
    PicturesBlock,
    PlotBlock,
    Section,
    TableBlock,
    TextBlock,
    note,
    number,
    png_picture,
    scores_table,
    settings_table,
    with_interval,
)
from candlelight.evaluation.report.drawing import COLOURS, INK, drawing, label_rows, to_svg
from candlelight.evaluation.report.plain_section import plain_section
from candlelight.evaluation.report.tiles import (
    encoded_pixels,
    evenly_spaced_rows,
    join_horizontally,
    scale_for_page,
    values_text,
)
from candlelight.evaluation.run.evaluate import Run
from candlelight.evaluation.run.intervals import Score
from candlelight.evaluation.run.result import Result, StatisticResult, model_name, notes_of, score_grid
from candlelight.evaluation.views import Factors
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.errors import InputError
from candlelight.loaders.looking.layer_pixels import Pixels
from candlelight.loaders.looking.sheet_tiles import BACKGROUND
from candlelight.loaders.schema import FactorInfo, FactorValue

_IMAGES = 6


def _shown_images(data: Factors) -> list[Block]:
    """Show a few images and the values of the factors that vary."""
    if isinstance(data, FactorColumns):
        return []
    pictures = []
    varying = [len(set(column)) > 1 for column in data.table.T.tolist()]
    for row in evenly_spaced_rows(len(data), _IMAGES):
        pairs = compress(zip(data.factors, data.table[row].tolist(), strict=True), varying)
        values = values_text({factor.name: _value(factor, value) for factor, value in pairs})
        pixels = scale_for_page(encoded_pixels(data[row]))
        pictures.append(png_picture(pixels, f"Image {data.ids[row]}.", values))
    caption = f"{len(pictures)} of {len(data)} images, with the values of the factors that vary."
    return [PicturesBlock(tuple(pictures), caption)]


def _value(factor: FactorInfo, value: float) -> FactorValue:
    return (factor.values or ())[int(value)] if factor.kind == "categorical" else value


_LEGIBLE = 10  # maximal number of codes for which the heat map shows numbers
_CODES_READING = (
    TextBlock(
        "IRS (Suter et al. 2019) measures whether a code keeps its value while one factor is fixed and all "
        "other factors change. Unconfoundedness UC (Reddy et al. 2022) measures whether different factors "
        "use different codes. MIG, SAP, modularity, InfoM and DCI's disentanglement ask whether codes and "
        "factors belong together one by one; minimality and T-MEX ask the same where factors depend on each "
        "other. Explicitness, InfoE, sufficiency, R2 and DCI's informativeness ask whether the "
        "codes tell the factors at all; MCC whether each factor is a map of one code. Blocks ask whether the "
        "codes of each factor tell it (the diagonal), and no other one (off the diagonal)."
    ),
    TextBlock(
        "\u2191 Higher is better, \u2193 lower; the maximum is 1. Compare with random codes (lower control), "
        "the factors themselves and supervised codes (upper controls), not with 0 and 1.",
        term="How to read",
    ),
    TextBlock(
        "the selection of the images: each note below the table names the metrics whose conditions these "
        "data break.",
        term="Blind to",
    ),
)
# By name in the details: title of the heat map, and its meaning.
_MATRICES = {
    "matrix": ("IRS", "robustness: 1 means that the code does not change while the factor is fixed"),
    "information": ("MIG", "information of the code about the factor, in shares of the factor's entropy"),
    "dci_fast": ("DCI (fast)", "importance of the code for predicting the factor"),
    "dci": ("DCI", "importance of the code for predicting the factor"),
    "blocks": ("Blocks", "share of the halves in which the code belongs to the block of the factor"),
    "irs_do": ("IRS by interventions", "1 means that the code keeps its value if the factor does"),
}
_OF_BLOCKS = "blocks("  # begins the names of matrices [blocks, factors]
# By name in the details: the columns of decoded against rendered counterfactuals.
_RENDERED = {
    "rendered_counterfactual(1)": "score",
    "rendered_counterfactual(1), changed region": "in the changed region",
    "rendered_counterfactual(1), random choice": "random code",
    "rendered_counterfactual, all codes": "all codes",
    "rendered_counterfactual, mean image": "mean image",
    "rendered_counterfactual, nearest other frame": "nearest other frame",
    "rendered_counterfactual(1), share": "share of all codes",
}


def _codes_section(results: Sequence[StatisticResult], pictures: Sequence[Block]) -> Section:
    """Report the scores of encoders on the same data."""
    single = [result for result in results if "seeds" not in result.details]
    blind = [
        f"{model_name(result)}: all images have the same codes, so IRS is 0."
        for result in single
        if not result.details["codes"]
    ]
    plots = [_plot(result) for result in single if result.details["codes"]]
    plots += [_plot_blocks(result) for result in single if "blocks" in result.details["matrices"]]
    shown = *_score_blocks(results, blind), *plots, *pictures, *map(_matrix, single)
    return Section("codes", "Codes and factors", (*shown, settings_table(results)))


def _generativeness_section(results: Sequence[StatisticResult], pictures: Sequence[Block]) -> Section:
    """Report counterfactual generativeness; the title tells how many factors it stands on."""
    tables = [_decoder(result) for result in results if result.details.get("decoder")]
    blocks = (*_score_blocks(results), *tables, *pictures, settings_table(results))
    return Section("generativeness", _stands_on(results), blocks)


def _counterfactuals_section(results: Sequence[StatisticResult], pictures: Sequence[Block]) -> Section:
    """Report decoded against rendered counterfactuals."""
    tables = [_rendered(result) for result in results if result.details.get("rendered")]
    blocks = (*_score_blocks(results), *tables, *pictures, settings_table(results))
    return Section("counterfactuals", "Decoded and rendered counterfactuals", blocks)


def _effects_section(results: Sequence[StatisticResult], pictures: Sequence[Block]) -> Section:
    """Report the scores of estimated effects, and the estimates of all replicates."""
    given = results[0].about.settings
    first, second = given["values"].split(",")
    said = f"effect of {given['treatment']} on {given['outcome']}: {second.strip()} against {first.strip()}"
    with drawing(1 + 0.5 * len(results)) as figure:
        axes = figure.subplots()
        for place, result in enumerate(results):
            value, low, high = np.array(result.details["estimates"], dtype=float).T
            heights, colour = np.linspace(-0.3, 0.3, len(value)) + place, COLOURS[place % len(COLOURS)]
            reach = value - low, high - value
            axes.errorbar(value, heights, xerr=reach, fmt=".", linewidth=0.8, color=colour)
        label_rows(axes, list(map(model_name, results)))
        axes.axvline(results[0].details["truth"], color=INK, linewidth=0.8)
        axes.set_xlabel(said)
        svg = to_svg(figure, "effects")
    told = "Each dot is the estimate of one replicate, with its 95 % interval. The line is the true effect: "
    told += "dots of an estimator without bias lie on both sides of it."
    plot = PlotBlock(svg, told, told)
    shown = scores_table("Scores over replicates, with 95 % intervals", results)
    notes = (note(f"{line}.") for line in notes_of(results))
    return Section("effects", "Effects", (shown, *notes, plot, settings_table(results)))


def _score_blocks(results: Sequence[StatisticResult], more: Sequence[str] = ()) -> tuple[Block, ...]:
    """Tabulate the scores, with the notes below."""
    several = any("seeds" in result.details for result in results)
    caption = "Scores of each model, with 95 % intervals over groups of images"
    caption += "; of several seeds, over seeds" * several
    notes = [*(f"{line}." for line in notes_of(results)), *more]
    return (scores_table(caption, results), *map(note, notes))


def _stands_on(results: Sequence[Result]) -> str:
    """Tell on how many of the factors counterfactual generativeness stands."""
    title = "Counterfactual generativeness"
    every = results[0].about.settings["factors"]
    details = (result.details for result in results if isinstance(result, StatisticResult))
    found = [next(iter(one["decoder"].values()))["factors"] for one in details if one.get("decoder")]
    named = found[0] if found else []
    return f"{title} on {len(named)} of {len(every)} factors" + (f": {', '.join(named)}" if named else "")


def _generativeness_lines(results: Sequence[Result]) -> list[str]:
    return [_stands_on(results), *score_grid(results)]


def _plot(result: StatisticResult) -> PlotBlock:
    codes, shown = len(result.details["codes"]), _matrices(result)
    meanings = "; ".join(f"{title}: {meaning}" for title, meaning in map(_MATRICES.__getitem__, shown))
    caption = f"{model_name(result)}: codes (columns) and factors (rows). {meanings}. "
    caption += "Ideal: each code is bright at one factor alone."
    caption += " An asterisk marks the largest value of each code." * (codes <= _LEGIBLE)
    alt = f"Heat maps of {codes} codes by {len(result.about.settings['factors'])} factors."
    return PlotBlock(_draw(result, shown, list(map(str, result.details["codes"])), "code"), alt, caption)


def _plot_blocks(result: StatisticResult) -> PlotBlock:
    """Draw the matrices [factors, blocks], of which the diagonal should be 1 and all else 0."""
    factors = result.about.settings["factors"]
    found = result.details["matrices"]
    shown = {name: np.array(found[name], dtype=float).T for name in found if name.startswith(_OF_BLOCKS)}
    caption = (
        f"{model_name(result)}: blocks of codes (columns) and factors (rows), on held-out images. Exact "
        "blocks of independent factors have 1 on the diagonal and 0 elsewhere. A row is empty if the values "
        "have no order."
    )
    alt = f"Heat maps of {len(factors)} blocks by {len(factors)} factors."
    return PlotBlock(_draw(result, shown, factors, "block"), alt, caption)


def _matrices(result: StatisticResult) -> dict[str, ndarray]:
    """Return the matrices [factors, codes] of the codes that vary, by name."""
    codes = result.details["codes"]
    found = {
        name: np.array(matrix, dtype=float)[codes].T
        for name, matrix in result.details["matrices"].items()
        if not name.startswith(_OF_BLOCKS)
    }
    return {"matrix": np.array(result.details["matrix"], dtype=float).T, **found}


# By name in the details: the columns of counterfactual generativeness by factor.
_EFFECTS = {
    "by_factor": "score",
    "signed": "signed",
    "random_choice": "random choice",
    "inside": "effect of its codes",
    "outside": "effect of the others",
    "certainty": "certainty",
}


def _decoder(result: StatisticResult) -> TableBlock:
    """Tabulate the effects of the codes of each factor on decoded images."""
    name, details = next(iter(result.details["decoder"].items()))
    columns = [map(number, details[part]) for part in _EFFECTS]
    rows = tuple(zip(details["factors"], *columns, strict=True))
    caption = (
        f"{model_name(result)}: {name} by factor; certainty is the probability of the true class before an "
        f"intervention; mean squared reconstruction error {details['reconstruction_error']:.3g}"
    )
    return TableBlock(caption, ("factor", *_EFFECTS.values()), rows)


def _rendered(result: StatisticResult) -> TableBlock:
    """Tabulate how far decoded images are from rendered counterfactuals, by factor."""
    details = result.details["rendered"]
    rows = []
    for name, one in details["factors"].items():
        cells = [one["scores"].get(label, [None] * 3) for label in _RENDERED]
        shown = [
            with_interval(Score(*(math.nan if part is None else part for part in cell))) for cell in cells
        ]
        codes = ", ".join(map(str, one["codes"].get("1", ())))
        rows.append((name, *shown, codes, str(one["pairs"])))
    unseen = ", ".join(details["not_decoded"])
    caption = (
        f"{model_name(result)}: decoded against rendered counterfactuals, one code of each factor changed; "
        "1 is the rendered image, 0 the input given back"
    )
    caption += f"; not decoded, so 0 or less in the mean: {unseen}" if unseen else ""
    head = ("factor", *_RENDERED.values(), "code", "pairs")
    return TableBlock(caption, head, tuple(rows))


def _matrix(result: StatisticResult) -> TableBlock:
    factors, details = result.about.settings["factors"], result.details
    rows = [
        (str(code), *map(number, entries), factors[parent])
        for code, entries, parent in zip(details["codes"], details["matrix"], details["parents"], strict=True)
    ]
    caption = f"{model_name(result)}: robustness of each code"
    return TableBlock(caption, ("code", *factors, "largest for"), tuple(rows), folded=True)


def _draw(result: StatisticResult, shown: dict[str, ndarray], columns: Sequence[str], what: str) -> str:
    factors = result.about.settings["factors"]
    with drawing((1.2 + 0.3 * len(factors)) * len(shown)) as figure:
        for axes, (name, matrix) in zip(
            figure.subplots(len(shown), squeeze=False)[:, 0], shown.items(), strict=True
        ):
            low = min(0.0, float(np.nanmin(matrix)))
            image = axes.imshow(matrix, cmap="viridis", vmin=low, vmax=1, aspect="auto", interpolation="none")
            axes.set_yticks(range(len(factors)), factors)
            axes.grid(visible=False)
            axes.set(xticks=[], title=_MATRICES.get(name, (name,))[0])
            if matrix.shape[1] <= _LEGIBLE:
                _label(axes, matrix, low)
                axes.set_xticks(range(len(columns)), columns)
            if what == "block":
                axes.set_xticks(range(len(columns)), [""] * len(columns))
            figure.colorbar(image, ax=axes, pad=0.02)
        if what == "block":  # names, of which those of all maps would overlap
            axes.set_xticks(range(len(columns)), columns, rotation=90)
        axes.set_xlabel(what)
        return to_svg(figure, "causal")


def _label(axes: Axes, matrix: ndarray, low: float) -> None:
    """Write the values into the cells, and mark the largest of each column."""
    largest = np.nan_to_num(matrix, nan=-np.inf).argmax(axis=0)
    for row, column in np.ndindex(*matrix.shape):
        own = "*" if largest[column] == row else ""
        ink = "black" if matrix[row, column] > low + 0.6 * (1 - low) else "white"
        text = f"{matrix[row, column]:.2f}{own}"
        axes.text(column, row, text, ha="center", va="center", color=ink, fontsize=9)


_FACTORS = 6


def _rendered_pictures(run: Run[Any], results: Mapping[str, Result]) -> list[Block]:
    """Show decoded counterfactuals beside rendered ones.

    Returns:
        A block for each model with a decoder, with a picture for each of at most six factors: an image, its
        reconstruction, the decoded image with the code of the factor set to its value for the counterfactual,
        and the rendered counterfactual. The value of the code is that of another image with the new factor.
    """
    blocks: list[Block] = []
    data, counterfactuals = run.data.images, run.data.counterfactuals
    decoders = find_decoders(run)
    for name, named in run.models.items():
        found = results[name].details["rendered"]
        pictures = []
        for factor, one in list(found.get("factors", {}).items())[:_FACTORS]:
            if not (codes := one["codes"].get("1")):
                continue  # no code varies
            own, *others = one["example"]
            pair = data.ids.index(own), counterfactuals.ids.index(others[0])
            donor = counterfactuals[counterfactuals.ids.index(others[1])]
            given = data[pair[0]], counterfactuals[pair[1]], donor, codes, run.device
            pixels = _row(named, decoders[name], *given)
            change = _change(data, counterfactuals, pair, factor)
            alt = f"Image, reconstruction, decoded and rendered counterfactual: {factor} {change}."
            pictures.append(png_picture(scale_for_page(pixels), alt, f"{factor}: {change}; code {codes[0]}"))
        caption = (
            f"{name}: decoded and rendered counterfactuals. From the left: image, reconstruction, decoded "
            "with one code set to its value in another image with the new factor, rendered counterfactual."
        )
        if pictures:
            blocks.append(PicturesBlock(tuple(pictures), caption))
    return [*blocks, *_shown_images(data)]


def _row(
    named: NamedModel,
    decoder: Decoder,
    image: Float[Tensor, "3 h w"],
    rendered: Float[Tensor, "3 h w"],
    donor: Float[Tensor, "3 h w"],
    changed: list[int],
    device: str,
) -> Pixels:
    """Join the four images of a pair."""
    own, target = encode_images(named, torch.stack([image, donor]), device).float()
    moved = own.clone()
    moved[changed] = target[changed]
    shown = [image, *decoder(torch.stack([own, moved])).clamp(0, 1).cpu(), rendered]
    tiles = [encoded_pixels(one) for one in shown]
    height = max(tile.shape[0] for tile in tiles)
    padded = (
        np.pad(tile, ((0, height - len(tile)), (0, 0), (0, 0)), constant_values=BACKGROUND) for tile in tiles
    )
    return reduce(join_horizontally, padded)


def _change(data: Factors, counterfactuals: Factors, pair: tuple[int, int], factor: str) -> str:
    """Write the two values of a factor."""
    values: list[FactorValue] = []
    for view, row in zip((data, counterfactuals), pair, strict=True):
        column = [info.name for info in view.factors].index(factor)
        number, known = float(view.table[row, column]), view.factors[column].values
        values.append(known[int(number)] if known else number)
    return " → ".join(f"{value:.3g}" if isinstance(value, float) else str(value) for value in values)


def _strips(run: Run[Any], results: Mapping[str, Result]) -> list[Block]:
    """Show for each model and factor an image, the model's counterfactual and the rendered one."""
    blocks: list[Block] = []
    for name, strips in run.kept["strips"].items():
        joined = {
            factor: reduce(join_horizontally, (encoded_pixels(one.clamp(0, 1).cpu()) for one in shown))
            for factor, shown in strips.items()
        }
        pictures = [
            png_picture(scale_for_page(pixels), f"Image and counterfactuals of another {factor}.", factor)
            for factor, pixels in joined.items()
        ]
        caption = f"{name}: from the left: image, counterfactual of the model, rendered counterfactual."
        blocks.append(PicturesBlock(tuple(pictures), caption))
    return blocks


_TRAVERSED_IMAGES, _STEPS, _CODES = 2, 7, 10
_RANGE = 64  # images whose codes give the range of each code


def _traversals(run: Run[Any], results: Mapping[str, Result]) -> list[Block]:
    """Decode images while one code at a time runs through its range.

    Returns:
        A block for each decoder of images like these in [0, 1]: one picture for each of two images. Its first
        row is the image and its reconstruction; each other row changes one code, from its smallest to its
        largest value among the images, at most ten codes of the largest spread.
    """
    blocks: list[Block] = []
    for name, decoder in find_decoders(run).items():
        with suppress(InputError):  # a note of the results tells why
            blocks.append(_traverse(name, run.models[name], decoder, run.data, run.device))
    return [*blocks, *_shown_images(run.data)]


def _traverse(name: str, named: NamedModel, decoder: Decoder, data: Factors, device: str) -> PicturesBlock:
    ranged = torch.stack([data[row] for row in evenly_spaced_rows(len(data), _RANGE)])
    codes = encode_images(named, ranged, device).float()
    chosen = codes.std(0).argsort(descending=True)[:_CODES].sort().values
    low, high = codes.amin(0), codes.amax(0)
    pictures = []
    for row in evenly_spaced_rows(len(data), _TRAVERSED_IMAGES):
        image = data[row]
        own = encode_images(named, image[None], device).float()
        reconstruction = _decode(decoder, own)
        check_shapes(
            image=(image[None], "batch channels h w"), decoder=(reconstruction, "batch channels h w")
        )
        rows = [_walk(decoder, own[0], int(code), low, high) for code in chosen]
        top = [encoded_pixels(image), encoded_pixels(reconstruction[0].cpu())]
        top += [np.full_like(top[0], BACKGROUND)] * (_STEPS - len(top))
        pixels = np.concatenate([np.concatenate(one, axis=1) for one in (top, *rows)])
        listed = ", ".join(str(int(code)) for code in chosen)
        alt = f"Decoded images of {data.ids[row]}; each row changes one of the codes {listed}."
        pictures.append(png_picture(pixels, alt, f"{data.ids[row]}: codes {listed}"))
    caption = f"{name}: traversals. First row: image, reconstruction. Each other row changes one code from "
    caption += "its smallest to its largest value among the images."
    return PicturesBlock(tuple(pictures), caption)


def _walk(
    decoder: Decoder,
    own: Float[Tensor, " codes"],
    code: int,
    low: Float[Tensor, " codes"],
    high: Float[Tensor, " codes"],
) -> list[Pixels]:
    codes = own.repeat(_STEPS, 1)
    codes[:, code] = torch.linspace(float(low[code]), float(high[code]), _STEPS, device=codes.device)
    return [encoded_pixels(image) for image in _decode(decoder, codes).cpu()]


def _decode(
    decoder: Decoder, codes: Float[Tensor, "batch codes"]
) -> Float[Tensor, "batch channels height width"]:
    unchanged = torch.zeros(codes.shape[1], dtype=torch.bool, device=codes.device)
    return decode_codes(decoder, codes, codes, unchanged)


_COMPARE = TextBlock(
    "\u2191 Higher is better; the maximum is 1. Compare with a random choice of the codes, not with 0.",
    term="How to read",
)
CODES_PAGE = Page(
    section=_codes_section,
    reading=_CODES_READING,
    needs=("factors", "codes", "matrix", "parents", "matrices"),
    pictures=lambda run, results: _shown_images(getattr(run.data, "images", run.data)),
    lines=score_grid,
)
GENERATIVENESS_PAGE = Page(
    section=_generativeness_section,
    reading=(
        TextBlock(
            "Counterfactual generativeness CG (Reddy et al. 2022) measures whether the codes of a factor "
            "change it in decoded images, as a classifier sees it, and all other codes do not. The signed "
            "score is negative where the other codes change it."
        ),
        _COMPARE,
        TextBlock(
            "factors that the classifier does not tell, which are left out; and a classifier that is right "
            "but not certain, which lowers the score of perfect codes: read the certainty.",
            term="Blind to",
        ),
    ),
    needs=("factors", "decoder"),
    pictures=_traversals,
    lines=_generativeness_lines,
)
COUNTERFACTUALS_PAGE = Page(
    section=_counterfactuals_section,
    reading=(
        TextBlock(
            "The codes of one factor take their values for another image, and the decoded image is compared "
            "with the rendered one, which differs in this factor alone. 1 is the rendered image, 0 as far "
            "from it as the input is."
        ),
        _COMPARE,
        TextBlock(
            "the reason of an error: a poor reconstruction lowers the score as an entangled code does.",
            term="Blind to",
        ),
    ),
    needs=("factors", "rendered"),
    pictures=_rendered_pictures,
    lines=score_grid,
)
EFFECTS_PAGE = Page(
    section=_effects_section,
    reading=(
        TextBlock(
            "Estimates of the effect of an intervention, from observed rows, against the true effect, "
            "which is known from rows of the interventions. Bias is the mean estimate of the replicates, "
            "parts of the observed rows, less the true effect; coverage is the share of the 95 % intervals "
            "that hold it."
        ),
        TextBlock(
            "↓ A lower rmse, a bias near 0 and a coverage near 0.95 are better. `naive` adjusts for "
            "nothing, `zero effect` always answers 0, and `oracle` reads the interventions: an estimator "
            "should do as well as `oracle`, and better than the others.",
            term="How to read",
        ),
        TextBlock("the reason of a bias; the notes name open backdoor paths.", term="Blind to"),
    ),
    needs=("estimates", "truth"),
    lines=score_grid,
)
AXIOMS_PAGE = Page(
    section=partial(plain_section, "axioms", "Axioms of counterfactual images"),
    reading=(
        TextBlock(
            "Effectiveness is the share of counterfactual images in which a classifier sees the new class; "
            "composition is the mean difference of pixels after interventions that change nothing, and "
            "reversibility after interventions there and back (Monteiro et al. 2023)."
        ),
        TextBlock(
            "↑ Higher effectiveness, and ↓ lower differences, are better together: the input given back "
            "has no errors, and changes nothing. The effectiveness of the rendered counterfactual is the "
            "accuracy of the classifier.",
            term="How to read",
        ),
        TextBlock(
            "the identity of what is shown: a model that looks up any image of the new factors can be "
            "perfect.",
            term="Blind to",
        ),
    ),
    pictures=_strips,
    lines=score_grid,
)
