"""The content for scores of one layer: an image, the truth of the layer, and the pixels that are scored."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from candlelight.evaluation.catalogue.intrinsic_options import PartKind, ScoredLayer
from candlelight.evaluation.views.intrinsic_contents import DECOMPOSITION_CONTENT
from candlelight.evaluation.views.named_rows import FRAMES, ChosenRows, Content, NamedRows
from candlelight.evaluation.views.view_colours import linear_image, linear_layer, to_linear
from candlelight.evaluation.views.view_types import LayerImage, Tensor
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.mixed_edges import mixed_edges

SHORTEST_NORMAL = 0.5  # the normal of a pixel without a surface is 0


@dataclass(frozen=True)
class LayerOptions:
    """Options of `open_data("layers", ...)`.

    Attributes:
        layer: the layer; "reconstruction" is the image itself, where albedo and shading explain it.
        leave_edges: as of `DecompositionOptions`.
        by: "object" or "material" of frames, whose pixels are told apart; None for none.
    """

    layer: ScoredLayer = "albedo"
    leave_edges: int = 0
    by: PartKind | None = None

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        check_choice("layer", self.layer, ScoredLayer)
        if self.by is not None:
            check_choice("by", self.by, PartKind)
        if self.leave_edges < 0:
            raise InputError(f"leave_edges: expected 0 or more pixels, got {self.leave_edges}")


@dataclass(frozen=True, eq=False)
class OneLayerRows(ChosenRows[LayerImage]):
    """Chosen rows of one layer.

    Colours of frames are times the exposure, as those of `DecompositionRows`. Scored are pixels with a known
    value: albedo where it is above 0, shading where it is in all channels, normals and depth where something
    is hit, roughness and metallic where there is a normal or a depth, residual everywhere. ``parts`` names
    the types of objects, or the materials, that are told apart.
    """

    parts: tuple[str, ...] = ()


def _layers_of(available: Collection[str], options: LayerOptions) -> tuple[str, ...]:
    seen = next((one for one in ("normal", "depth") if one in available), None)
    read = {
        **{"shading": ("albedo", "shading"), "reconstruction": ("albedo",)},
        **dict.fromkeys(("roughness", "metallic"), (options.layer, *([seen] if seen else []))),
    }.get(options.layer, (options.layer,))
    objects = ("object",) if options.leave_edges or options.by else ()
    return tuple(dict.fromkeys((linear_layer(available), *read, *objects)))


def _layer_of_frame(named: NamedRows, options: LayerOptions, row: int) -> LayerImage:
    sample, exposure, layer = named.reader[row], named.reader.set_info.exposure, options.layer
    image = linear_image(sample, exposure)
    if layer == "reconstruction":
        truth, mask = image, (sample["albedo"] > 0).any(0)
    elif layer in ("shading", "residual"):
        truth = to_linear(sample[layer]) * exposure
        mask = (sample["albedo"] > 0).all(0) if layer == "shading" else _known(layer, truth)
    else:
        truth = _planes(sample[layer])
        mask = _known(layer, truth)
        for seen in ("normal", "depth") if layer in ("roughness", "metallic") else ():
            mask = mask & _known(seen, _planes(sample[seen])) if seen in sample else mask
    if options.leave_edges:
        mask = mask & mask.new_tensor(~mixed_edges(sample["object"].numpy(), options.leave_edges))
    return LayerImage(image, truth, mask, layer)


def _layer_of_public(named: NamedRows, options: LayerOptions, row: int) -> LayerImage:
    item, layer = named.reader[row], options.layer
    image = to_linear(item["diffuse" if named.identity.layout == "mit" else "image"])
    names = {"albedo": ("reflectance", "albedo"), "reconstruction": ("image",)}.get(layer, (layer,))
    name = next((one for one in names if one in item), None)
    if name is None:
        raise InputError(f"{named.identity.name}: `{named.identity.layout}` has no layer {layer}")
    colour = layer in ("albedo", "shading", "residual")
    truth = image if layer == "reconstruction" else (to_linear if colour else _planes)(item[name])
    mask = item.get(f"{name}_mask", item.get("mask"))
    known = _known("residual" if mask is not None and colour else layer, truth)
    return LayerImage(image, truth, known if mask is None else mask.bool() & known, layer)


def _planes(values: Tensor) -> Tensor:
    """Give a layer of one channel its axis; float32."""
    return (values if values.ndim == 3 else values[None]).float()


def _known(layer: str, truth: Tensor) -> Tensor:
    finite = truth.isfinite().all(0)
    if layer == "normal":
        return finite & (truth.square().sum(0) > SHORTEST_NORMAL**2)
    return finite & ((truth > 0).any(0) if layer in ("albedo", "depth") else finite)


def _layer_view(named: NamedRows, read: Callable[[int], LayerImage], options: LayerOptions) -> OneLayerRows:
    import torch

    edges = options.leave_edges
    mask = f"without {edges} pixels at edges of objects" if edges else None
    named = replace(named, identity=replace(named.identity, mask=mask))
    if options.by is None:
        return OneLayerRows(named, read)
    field = "type" if options.by == "object" else "material"
    kinds = {
        row: [str(getattr(one, field)) for one in named.reader.metadata(row).objects] for row in named.numbers
    }
    parts = sorted({kind for some in kinds.values() for kind in some})
    if not parts:
        raise InputError(f"{named.identity.name}: expected frames with objects, got none")

    def read_parts(row: int) -> LayerImage:
        objects, of = named.reader[row]["object"], kinds[row]
        masks = {
            part: torch.isin(
                objects, objects.new_tensor([1 + n for n, kind in enumerate(of) if kind == part])
            )
            for part in parts
        }
        return replace(read(row), parts=masks)

    return OneLayerRows(named, read_parts, tuple(parts))


LAYER_CONTENT = Content(
    "layers",
    DECOMPOSITION_CONTENT.layouts,
    _layers_of,
    options=LayerOptions,
    only={"leave_edges": (FRAMES,), "by": (FRAMES,)},
    frame=_layer_of_frame,
    public=_layer_of_public,
    view=_layer_view,
)
