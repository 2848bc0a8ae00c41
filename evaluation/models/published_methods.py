"""Published methods from a checkout of their repository: CGIntrinsics, BigTime, USI3D and NIID-Net."""

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from candlelight.evaluation.models.published_weights import entry, hash_files, load_exactly, read_published
from candlelight.loaders.errors import InputError, did_you_mean, nearest_file
from candlelight.loaders.files.python_files import exception_reason

NEVER_RUN = "adapter never run with the published weights"


class AdaptedNetwork(nn.Module):
    """A published network with its conversion from images and to reflectance and shading.

    Attributes:
        colour_space: of the images that it takes: sRGB-encoded, in [0, 1].
        version: method, and what was never checked; part of the identity in a result.
        sha256: hash of the code and the weights that were read.
    """

    colour_space: ClassVar[Literal["srgb"]] = "srgb"

    def __init__(self, method: str, files: dict[str, Path]) -> None:
        super().__init__()
        self.version = f"{method}, {NEVER_RUN}"
        self.sha256 = hash_files(files)


def resize_bilinear(
    images: Float[Tensor, "batch channels height width"], size: Sequence[int]
) -> Float[Tensor, "batch channels rows columns"]:
    """Resize bilinearly, with an antialiasing filter where images shrink.

    Example:
        >>> resize_bilinear(torch.tensor([[[[0.0, 1.0]]]]), (1, 1)).item()
        0.5
    """
    if tuple(images.shape[-2:]) == tuple(size):
        return images
    return functional.interpolate(images, tuple(size), mode="bilinear", antialias=True)


def choose_size(
    height: int, width: int, sizes: Sequence[tuple[float, tuple[int, int]]], square: tuple[int, int]
) -> tuple[int, int]:
    """Choose one of the sizes of a network by the aspect ratio.

    Args:
        height: of the image.
        width: of the image.
        sizes: bounds of height / width, the largest first, and the size of images above each; images below
            the reciprocal of a bound have this size with height and width exchanged.
        square: size of all other images.

    Example:
        >>> choose_size(480, 640, [(1.41, (384, 256)), (1.15, (512, 384))], (384, 384))
        (384, 512)
    """
    ratio = height / width
    for bound, (long, short) in sizes:
        if ratio > bound:
            return long, short
        if ratio < 1 / bound:
            return short, long
    return square


def decode_srgb(encoded: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Decode sRGB values in [0, 1] to scene-linear ones, on any device and with gradients.

    Example:
        >>> decode_srgb(torch.tensor([0.0, 0.5, 1.0]))
        tensor([0.0000, 0.2140, 1.0000])
    """
    return torch.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


@dataclass(frozen=True, eq=False)
class CheckoutFile:
    """A file of a checkout that has been run.

    Attributes:
        path: the file.
        module: its classes and functions.
        files: by the name in the checkout, the file and the modules of its folder that it imported.
    """

    path: Path
    module: ModuleType
    files: dict[str, Path]

    def make(self, name: str, *arguments: object) -> Any:
        """Make an object of a class of the file; the state of torch's random numbers is restored.

        Raises:
            InputError: there is no such class, or its constructor raised an exception.
        """
        kind: Callable[..., Any] | None = getattr(self.module, name, None)
        if kind is None:
            near = did_you_mean(name, vars(self.module))
            raise InputError(f"{self.path}: expected a class `{name}`, there is none{near}; {_CURE}")
        with _one_line(f"{self.path}: `{name}` cannot be made"):
            return kind(*arguments)


_CURE = "docs/others.md names the commit, and the packages that it imports"


def run_checkout_file(
    checkout: str | Path, file: str, siblings: bool = False, edit: tuple[bytes, bytes] | None = None
) -> CheckoutFile:
    """Run a file of a checkout as a module. ``sys.path`` and ``sys.modules`` end as they were.

    Args:
        checkout: folder of the repository.
        file: path of the file in the repository.
        siblings: whether the file imports modules of its own folder, as a package of the folder's name.
            Imports that a function does later are not found.
        edit: bytes of the source and their replacement, for code that today's Python cannot run. The file on
            disk is not changed.

    Raises:
        InputError: the folder or the file does not exist, or running the file raised an exception.

    Example:
        >>> run_checkout_file("nowhere", "models/networks.py")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: expected the folder of a checkout, there is no nowhere
    """
    folder = Path(checkout)
    path = folder / file
    if not folder.is_dir():
        raise InputError(f"expected the folder of a checkout, there is no {folder}{nearest_file(folder)}")
    if not path.is_file():
        raise InputError(f"{folder}: expected a checkout with the file {file}, there is none; {_CURE}")
    module = ModuleType(f"_checkout_{path.stem}")
    module.__file__ = str(path)
    files = {file: path}
    package = _package(path.parent.resolve()) if siblings else nullcontext(list)
    with package as imported, _one_line(f"{path}: cannot be imported"):
        source = path.read_bytes()
        exec(compile(source.replace(*edit) if edit else source, path, "exec"), vars(module))
        files |= {str(one.relative_to(folder.resolve())): one for one in imported()}
    return CheckoutFile(path, module, files)


@contextmanager
def _package(folder: Path) -> Iterator[Callable[[], list[Path]]]:
    """Make a folder the package of its name; afterwards forget it and all that was imported from it."""

    def named() -> dict[str, ModuleType]:
        return {name: one for name, one in sys.modules.items() if name.partition(".")[0] == folder.name}

    hidden = named()  # another package of this name
    for name in hidden:
        del sys.modules[name]
    spec = ModuleSpec(folder.name, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    sys.modules[folder.name] = module_from_spec(spec)
    importlib.invalidate_caches()  # the caches may be older than the files
    try:
        yield lambda: [Path(one.__file__) for one in named().values() if one.__file__]
    finally:
        for name in named():
            del sys.modules[name]
        sys.modules.update(hidden)


@contextmanager
def _one_line(what: str) -> Iterator[None]:
    """Turn any exception of the checkout's code into one line; keep its random draws to itself."""
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    except (Exception, SystemExit) as error:
        raise InputError(f"{what}: {exception_reason(error)}; {_CURE}") from error


NETWORK_FILE = "models/networks.py"
CGI_SIZES = ((1.73, (512, 256)), (1.41, (384, 256)), (1.15, (512, 384)))
SQUARE = (384, 384)


class CGIntrinsics(AdaptedNetwork):
    """Network of CGIntrinsics as a model of scene-linear reflectance and shading.

    Args:
        network: maps sRGB images, whose sides are multiples of 128, to the logarithms of gray linear
            reflectance and of gray linear shading, in this order.
        files: that were read.
    """

    def __init__(self, network: nn.Module, files: dict[str, Path]) -> None:
        super().__init__("CGIntrinsics", files)
        self.network = network

    def forward(
        self, image: Float[Tensor, "batch 3 height width"]
    ) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 1 height width"]]:
        """Decompose sRGB images in [0, 1].

        Returns:
            Reflectance, the gray prediction times the chromaticity of the image (channels sum to 1, as in the
            training), and gray shading; scene-linear, with one free scale each.
        """
        size = image.shape[-2:]
        resized = resize_bilinear(image, choose_size(size[0], size[1], CGI_SIZES, SQUARE))
        log_reflectance, log_shading = self.network(resized)
        linear = decode_srgb(image).clamp(min=1e-4)
        chromaticity = linear / (linear.sum(1, keepdim=True) + 1e-6)
        gray = resize_bilinear(torch.exp(log_reflectance), size)
        return chromaticity * gray, resize_bilinear(torch.exp(log_shading), size)


def load_cgintrinsics(checkout: str | Path, weights: str | Path, device: str = "cpu") -> CGIntrinsics:
    """Load CGIntrinsics from a checkout of its repository, whose code is run, and its weights.

    Never run with the published weights.

    Args:
        checkout: folder with ``models/networks.py``; the file imports h5py, matplotlib and scikit-image.
        weights: ``cgintrinsics_iiw_saw_final_net_G.pth``, a state dict of ``MultiUnetGenerator``.
        device: torch device.

    Returns:
        The network in evaluation mode; layers are named ``network.model...``.

    Raises:
        InputError: a file is missing or cannot be used.

    Example:
        >>> load_cgintrinsics("CGIntrinsics", "cgintrinsics_iiw_saw_final_net_G.pth")  # doctest: +SKIP
    """
    code = run_checkout_file(checkout, NETWORK_FILE)
    network = code.make("MultiUnetGenerator", 3, 3, 7)
    load_exactly(network, read_published(weights), str(weights))
    return CGIntrinsics(network, {**code.files, "weights": Path(weights)}).to(device).eval()


# In Python 2 the quotient of integers was an integer; torch refuses 256.0 as a number of channels.
_HALF = (b"inner_nc/2", b"inner_nc//2")
# In `resize_img_arr` of the repository a second `if` overrules the bounds of 1.73.
_SIZES = CGI_SIZES[1:]
_WRAPPED = "model.model."


class BigTime(AdaptedNetwork):
    """Network of BigTime as a model of scene-linear reflectance and shading.

    Args:
        network: maps sRGB images, whose sides are multiples of 128, to the logarithms of gray linear shading,
            of linear reflectance in colour, and of the colour of the light [batch, 3], in this order. This is
            ``MultiUnetGenerator``; the repository's ``UnetWrapper`` around it multiplies all three by 0.4545
            for display, and is not used.
        files: that were read.
    """

    def __init__(self, network: nn.Module, files: dict[str, Path]) -> None:
        super().__init__("BigTime", files)
        self.network = network

    def forward(
        self, image: Float[Tensor, "batch 3 height width"]
    ) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
        """Decompose sRGB images in [0, 1].

        Returns:
            Reflectance and shading, which has one colour in each image; scene-linear, with one free scale
            each.
        """
        size = image.shape[-2:]
        resized = resize_bilinear(image, choose_size(size[0], size[1], _SIZES, SQUARE))
        log_shading, log_reflectance, log_light = self.network(resized)
        shading = torch.exp(log_shading + log_light[:, :, None, None])
        return resize_bilinear(torch.exp(log_reflectance), size), resize_bilinear(shading, size)


def load_bigtime(checkout: str | Path, weights: str | Path, device: str = "cpu") -> BigTime:
    """Load BigTime from a checkout of its repository, whose code is run, and its weights.

    The code is of Python 2; one division is replaced in memory. Never run with the published weights.

    Args:
        checkout: folder with ``models/networks.py``; the file imports h5py and scikit-image.
        weights: ``paper_final_net_G.pth``, a state dict of ``UnetWrapper`` or of ``MultiUnetGenerator``.
        device: torch device.

    Returns:
        The network in evaluation mode; layers are named ``network.model...``.

    Raises:
        InputError: a file is missing or cannot be used.

    Example:
        >>> load_bigtime("unsupervised-learning-intrinsic-images", "paper_final_net_G.pth")  # doctest: +SKIP
    """
    code = run_checkout_file(checkout, NETWORK_FILE, edit=_HALF)
    network = code.make("MultiUnetGenerator", 3, 3, 7)
    load_exactly(network, _unwrapped(read_published(weights)), str(weights))
    return BigTime(network, {**code.files, "weights": Path(weights)}).to(device).eval()


def _unwrapped(state: dict[str, Any]) -> dict[str, Any]:
    """Remove the name of the wrapper's member from all keys, if they have it."""
    if not all(str(name).startswith(_WRAPPED) for name in state):
        return state
    return {name.removeprefix("model."): values for name, values in state.items()}


_ENTRIES = {
    "NEM_coarse_model": "NEM_coarse_state_dict",
    "NEM_refine_model": "NEM_refine_state_dict",
    "IID_model": "IID_state_dict",
}


class NIID(AdaptedNetwork):
    """NIID-Net as a model of scene-linear reflectance and shading.

    Args:
        network: takes sRGB images of any size, which it resizes itself, and three flags (predict normals,
            reflectance, shading); returns normals, linear reflectance, lighting, linear gray shading and the
            rendered image, in this order and of the size of the image.
        files: that were read.
    """

    def __init__(self, network: nn.Module, files: dict[str, Path]) -> None:
        super().__init__("NIID-Net", files)
        self.network = network

    def forward(
        self, image: Float[Tensor, "batch 3 height width"]
    ) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 1 height width"]]:
        """Decompose sRGB images in [0, 1].

        Returns:
            Reflectance and gray shading; scene-linear, as the network gives them.
        """
        _, reflectance, _, shading, _ = self.network(image, True, True, True)
        return reflectance, shading


def load_niid_net(checkout: str | Path, weights: str | Path, device: str = "cpu") -> NIID:
    """Load NIID-Net from a checkout of its repository, whose code is run, and its weights.

    Never run with the published weights.

    Args:
        checkout: folder with ``models/niid_net.py`` and the modules that it imports from ``models``.
        weights: ``final.pth.tar``, a dictionary with the state dicts of three parts of the network.
        device: torch device.

    Returns:
        The network in evaluation mode; layers are named ``network.IID_model...`` and so on.

    Raises:
        InputError: a file is missing or cannot be used.

    Example:
        >>> load_niid_net("NIID-Net", "final.pth.tar")  # doctest: +SKIP
    """
    code = run_checkout_file(checkout, "models/niid_net.py", siblings=True)
    network = code.make("NIIDNet")
    content = read_published(weights)
    for name, key in _ENTRIES.items():
        load_exactly(getattr(network, name), entry(content, key, weights), f"{weights}: `{key}`")
    return NIID(network, {**code.files, "weights": Path(weights)}).to(device).eval()


SIDE = 300
_USI3D_ENTRIES = {"gen_i": "i", "gen_r": "r", "gen_s": "s", "fea_s": "fs"}
# In all configurations of the repository; the other numbers are read from the weights.
_FIXED = {"activ": "relu", "n_downsample": 2, "n_res": 4, "pad_type": "reflect"}
_GAMMA = 2.2


class USI3D(AdaptedNetwork):
    """Networks of USI3D as a model of scene-linear reflectance and shading.

    Reflectance times shading explains the encoded image. Both are raised to 2.2, so that the product explains
    the linear image.

    Args:
        code: defines ``AdaINGen`` and ``IntrinsicSplitor``.
        sizes: ``dim``, ``mlp_dim``, ``style_dim`` and ``n_layer`` of the networks.
        side: shorter side of the images that the networks are given, a multiple of 4.
        files: that were read.
    """

    def __init__(self, code: CheckoutFile, sizes: dict[str, int], side: int, files: dict[str, Path]) -> None:
        super().__init__(f"USI3D with a shorter side of {side} pixels", files)
        self.side = side
        options = {**_FIXED, **sizes}
        # The repository also has a network of the inverse, from two styles to one; decomposing leaves it out.
        self.gen_i, self.gen_r, self.gen_s = (code.make("AdaINGen", 3, 3, options) for _ in range(3))
        splitting = (sizes["style_dim"], sizes["mlp_dim"], sizes["n_layer"], _FIXED["activ"])
        self.fea_s = code.make("IntrinsicSplitor", *splitting)

    def forward(
        self, image: Float[Tensor, "batch 3 height width"]
    ) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
        """Decompose sRGB images in [0, 1].

        Returns:
            Reflectance and shading in colour; scene-linear, in [0, 1].
        """
        size = image.shape[-2:]
        content, style = self.gen_i.encode(
            resize_bilinear(image, shorter_side_size(size[0], size[1], self.side))
        )
        of_reflectance, of_shading = self.fea_s(style)
        parts = self.gen_r.decode(content, of_reflectance), self.gen_s.decode(content, of_shading)
        reflectance, shading = (resize_bilinear(part.clamp(0, 1) ** _GAMMA, size) for part in parts)
        return reflectance, shading


def shorter_side_size(height: int, width: int, side: int) -> tuple[int, int]:
    """Return the size with the given shorter side; the longer one is rounded down to a multiple of 4.

    Example:
        >>> shorter_side_size(480, 642, 300)
        (300, 400)
    """
    long = side * max(height, width) // min(height, width) // 4 * 4
    return (side, long) if height <= width else (long, side)


def load_usi3d(
    checkout: str | Path, weights: str | Path, device: str = "cpu", shorter_side: int = SIDE
) -> USI3D:
    """Load USI3D from a checkout of its repository, whose code is run, and its weights.

    Never run with the published weights.

    Args:
        checkout: folder with ``networks.py``; the file imports torchvision.
        weights: a dictionary with the state dicts ``i``, ``r``, ``s`` and ``fs``. The sizes of the networks,
            which differ between the published files, are read from the shapes.
        device: torch device.
        shorter_side: of the images that the networks are given, a multiple of 4: 300 for weights of MIX and
            MPI, 220 for weights of MIT.

    Returns:
        The networks in evaluation mode; layers are named ``gen_r.dec.model...`` and so on.

    Raises:
        InputError: a file is missing or cannot be used.

    Example:
        >>> load_usi3d("USI3D", "gen-MIX.pt")  # doctest: +SKIP
    """
    if shorter_side < 4 or shorter_side % 4:
        raise InputError(f"`shorter_side` must be a multiple of 4, got {shorter_side}")
    code = run_checkout_file(checkout, "networks.py")
    content = read_published(weights)
    states = {name: entry(content, key, weights) for name, key in _USI3D_ENTRIES.items()}
    model = USI3D(code, _sizes(states, weights), shorter_side, {**code.files, "weights": Path(weights)})
    for name, state in states.items():
        load_exactly(getattr(model, name), state, f"{weights}: `{_USI3D_ENTRIES[name]}`")
    return model.to(device).eval()


def _sizes(states: dict[str, Any], weights: str | Path) -> dict[str, int]:
    """Read the sizes that the constructors need from the shapes of weights."""
    try:
        mlp_dim, style_dim = states["gen_r"]["mlp.model.0.fc.weight"].shape
        dim = len(states["gen_r"]["enc_content.model.0.conv.weight"])
        layers = [name for name in states["fea_s"] if name.endswith("fc.weight")]
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"{weights}: expected the weights of `AdaINGen` and `IntrinsicSplitor`; there is no matrix "
            "mlp.model.0.fc.weight or enc_content.model.0.conv.weight in the entry `r`"
        ) from error
    return {"dim": dim, "mlp_dim": mlp_dim, "style_dim": style_dim, "n_layer": len(layers)}
