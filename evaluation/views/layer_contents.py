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
    read = [linear_layer(available), _telling(options.layer, available)]
    read += [options.layer] if options.layer != "reconstruction" else []
    read += ["object"] if options.leave_edges or options.by else []
    return tuple(dict.fromkeys(read))


def _telling(layer: str, available: Collection[str]) -> str:
    """Choose the layer that tells where a layer of frames is known."""
    if layer in ("roughness", "metallic"):
        return next((one for one in ("normal", "depth") if one in available), layer)
    return "albedo" if layer in ("shading", "reconstruction") else layer


def _layer_of_frame(named: NamedRows, options: LayerOptions, row: int) -> LayerImage:
    sample, exposure, layer = named.reader[row], named.reader.set_info.exposure, options.layer
    image = linear_image(sample, exposure)
    truth = image if layer == "reconstruction" else _planes(sample[layer])
    telling = _telling(layer, sample)
    mask = _known(telling, _planes(sample[telling]))
    if layer == "shading":  # it is 0 where the albedo is
        mask = (sample["albedo"] > 0).all(0)
    if options.leave_edges:
        mask = mask & mask.new_tensor(~mixed_edges(sample["object"].numpy(), options.leave_edges))
    return LayerImage(image, truth * exposure if layer in ("shading", "residual") else truth, mask, layer)


def _layer_of_public(named: NamedRows, options: LayerOptions, row: int) -> LayerImage:
    item, layer = named.reader[row], options.layer
    image = to_linear(item["diffuse" if named.identity.layout == "mit" else "image"])
    name = {"albedo": "reflectance" if "reflectance" in item else "albedo"}.get(layer, layer)
    if layer != "reconstruction" and name not in item:
        raise InputError(f"{named.identity.name}: `{named.identity.layout}` has no layer {layer}")
    colour = layer in ("albedo", "shading", "residual", "reconstruction")
    truth = image if layer == "reconstruction" else (to_linear if colour else _planes)(item[name])
    mask = item.get(f"{name}_mask", item.get("mask"))
    if mask is None:
        return LayerImage(image, truth, _known(layer, truth), layer)
    return LayerImage(image, truth, mask.bool() & _known("residual" if colour else layer, truth), layer)


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
    arguments=lambda layout, options: (
        {"material": options.layer in ("roughness", "metallic")} if layout == "interiorverse" else {}
    ),
    frame=_layer_of_frame,
    public=_layer_of_public,
    view=_layer_view,
)
