import json

import h5py
import numpy as np

from loaders.hdf5.objects import create_objects, object_columns, object_rows
from loaders.schema import Metadata, ObjectRecord, PartRecord

NAMES = {
    "type": ["car", "cube"],
    "material": ["m"],
    "parts/name": ["door", "wheel"],
    "parts/material": ["m", "rubber"],
}


def make_part(name, index, **fields):
    return PartRecord(**{"name": name, "index": index, "material": "m", "base_color": None, **fields})


def make_object(kind, parts=()):
    place = {"location": (1.0, 2.0, 3.0), "tilt": (4.0, 5.0), "corners": tuple(map(float, range(24)))}
    return ObjectRecord(type=kind, material="m", base_color=None, size=2, rotation=30, parts=parts, **place)


def with_objects(make_frame, *objects) -> Metadata:
    return make_frame().metadata.model_copy(update={"objects": objects})


def test_records_go_to_their_places_and_the_rest_is_padding(make_frame):
    wheel = make_part("wheel", 2, material="rubber", base_color=(0.1, 0.2, 0.3), bbox=(1, 2, 3, 4), area=6)
    car = make_object("car", (make_part("door", 1), wheel))
    rows = [with_objects(make_frame, make_object("cube"), car), with_objects(make_frame)]
    arrays = object_rows(rows, 2, 2, NAMES)
    assert {name: (array.shape[1:], array.dtype.name) for name, array in arrays.items()} == object_columns(
        2, 2
    )
    assert arrays["count"].tolist() == [2, 0]
    assert arrays["type"].tolist() == [[1, 0], [-1, -1]]
    np.testing.assert_array_equal(arrays["corners"][0, 1], np.arange(24))
    np.testing.assert_array_equal(arrays["tilt"][0], [[4, 5], [4, 5]])
    assert np.isnan(arrays["base_color"]).all()
    assert arrays["parts/count"].tolist() == [[0, 2], [-1, -1]]
    assert arrays["parts/name"].tolist() == [[[-1, -1], [0, 1]], [[-1, -1], [-1, -1]]]
    assert arrays["parts/index"][0, 1].tolist() == [1, 2]
    assert arrays["parts/material"][0, 1].tolist() == [0, 1]
    assert arrays["parts/bbox"][0, 1].tolist() == [[-1] * 4, [1, 2, 3, 4]]
    np.testing.assert_array_equal(arrays["parts/base_color"][0, 1], [[np.nan] * 3, [0.1, 0.2, 0.3]])
    assert arrays["parts/area"][0, 1].tolist() == [0, 6]


def test_every_field_of_the_schema_has_a_column():
    parts = {f"parts/{name}" for name in ("count", *PartRecord.model_fields)}
    assert object_columns(1, 1).keys() == {"count", *ObjectRecord.model_fields} - {"parts"} | parts


def test_no_objects_leave_no_axis_of_length_0(make_frame):
    arrays = object_rows([with_objects(make_frame)], 0, 0, NAMES)
    assert all(0 not in array.shape for array in arrays.values())


def test_names_stand_in_attributes(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        create_objects(file, 3, 2, 1, NAMES)
        assert json.loads(file["objects/parts/name"].attrs["names"]) == ["door", "wheel"]
        assert file["objects/parts/bbox"].shape == (3, 2, 1, 4)
        assert "names" not in file["objects/area"].attrs
