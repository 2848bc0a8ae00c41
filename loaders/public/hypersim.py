"""Read Hypersim (Roberts et al., ICCV 2021) as Marigold-IID-Lighting is scored on it (prs-eth/Marigold)."""

from pathlib import Path
from typing import Any, Literal, SupportsIndex

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.public.hypersim_frames import read_frame_list, read_prepared, read_released
from candlelight.loaders.public.hypersim_truth import hypersim_truth
from candlelight.loaders.public.image_formats import to_tensor
from candlelight.loaders.public.pixel_tensors import image_tensor

_Split = Literal["train", "val", "test"]
_LISTS = {"train": "hypersim_train_filtered.txt", "val": "hypersim_val.txt", "test": "hypersim_test.txt"}


class Hypersim:
    """Rendered rooms with diffuse albedo, diffuse shading, and the residual of both.

    ``data[i]`` is a dict of ``id`` (``<scene>/<camera>_fr<number>``), ``scene`` and

    * ``image``: float32 [3, H, W], the 8-bit image, decoded by the sRGB curve;
    * ``reflectance``: float32 [3, H, W], diffuse albedo, linear, in [0, 1];
    * ``shading``, ``residual``: float32 [3, H, W], linear, in [0, 1], both in one unit of the frame;
    * ``reflectance_mask``, ``shading_mask``, ``residual_mask``: bool [H, W], where each is known; elsewhere
      it is 0;
    * ``mask``: bool [H, W], where reflectance and shading are known.

    Reflectance, shading and residual are linear. Shading and residual are clipped to [0, c] and divided by c,
    the larger of their 98th percentiles, anew for each frame (`candlelight.loaders.public.hypersim_truth`). So
    ``reflectance * shading + residual`` is proportional to light below the cut-off; residual is light that is
    not diffuse.

    The image is tone-mapped: a factor for each frame, clipped at white, and the power 1/2.2. It is decoded by
    the sRGB curve all the same, as all 8-bit images of this package, so that encoding gives a model the very
    pixels of the file. The result differs from linear light by 0.0085 at most, but pixels of 18 of 255
    come out twice as bright, and darker ones more; ``linear_to_srgb(image) ** 2.2`` is proportional to light.

    Two layouts are read: the folder that Marigold's script writes (``test/<scene>/rgb_cam_00_fr0000.png``,
    ``albedo_...npy``, ``shading_...npy``, ``residual_...npy``), and, for scenes with a folder of their own in
    the root, the release (``<scene>/images/scene_cam_00_final_hdf5/frame.0000.color.hdf5`` and so on), which
    is tone-mapped at reading. A list of frames lies in the root.

    Certain: names, columns and rules, from the published code and its lists. Uncertain: this reader has never
    been run on the real files; half floats, and the size of 768 x 1024, are from memory.

    Example:
        >>> Hypersim("nowhere", "test")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/hypersim_test.txt is missing; get it from https://github.com/prs-eth/Marigold (script/iid/dataset_preprocess, data_split/hypersim_iid)
    """  # noqa: E501

    def __init__(self, root: Path | str, split: _Split) -> None:
        """Read the list of a split, without reading an image.

        Args:
            root: the folder, with the lists of Marigold's repository: ``hypersim_train_filtered.txt``,
                ``hypersim_val.txt``, ``hypersim_test.txt``. Where one is missing, the list of that partition
                which the script writes is read: ``filename_list_train.txt`` and so on.
            split: "test" (5238 frames of 44 scenes); "val", which in the repository's list is 70 frames of
                the folder ``test``, and in the script's list the partition of validation, on which
                Marigold-IID-Lighting was trained too; or "train".

        Raises:
            InputError: there is no such split, or its list is missing or damaged, or names other files than
                frames of Hypersim.
        """
        check_choice("split", split, _Split)
        self._root = Path(root)
        listed, written = self._root / _LISTS[split], self._root / f"filename_list_{split}.txt"
        self._frames = read_frame_list(written if written.is_file() and not listed.is_file() else listed)
        self.ids = tuple(self._frames)

    def __len__(self) -> int:
        """Count the frames."""
        return len(self.ids)

    def __getitem__(self, row: SupportsIndex) -> dict[str, Any]:
        """Read one frame.

        Raises:
            InputError: a file is missing or damaged, or has another shape, dtype, size or range.
        """
        name = self.ids[row]
        frame = self._frames[name]
        read = read_released if (self._root / frame.scene).is_dir() else read_prepared
        layers = read(self._root, frame)
        truth = hypersim_truth(layers.albedo, layers.shading, layers.residual)
        return {
            "id": name,
            "scene": frame.scene,
            "image": image_tensor(layers.image, linear=True),
            **{key: to_tensor(array) for key, array in truth.items()},
            "mask": to_tensor(truth["reflectance_mask"] & truth["shading_mask"]),
        }
