"""The exception family: what is caught as what."""

from __future__ import annotations

import errno
import pickle
from pathlib import Path
from typing import Any

import pytest

import graphzero as gz


@pytest.mark.parametrize("use", [gz.Graph, gz.FeatureStore, gz.Dataset, gz.verify, lambda p: gz.Dataset(p / "x")])
def test_a_missing_file_is_python_s_error_and_ours(tmp_path: Path, use: Any) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        use(tmp_path / "none.gl")
    error = caught.value
    assert isinstance(error, gz.MissingFileError)
    assert isinstance(error, gz.StorageError)
    assert error.errno == errno.ENOENT
    assert str(tmp_path / "none.gl") in str(error)
    assert str(tmp_path / "none.gl") in str(error.filename)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))


def test_other_errors_of_the_system_are_not_missing_files(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(gz.StorageError) as caught:
        gz.Dataset(tmp_path / "file")  # no folder
    assert not isinstance(caught.value, FileNotFoundError)
    assert type(gz.StorageError(errno.EIO, "x: read failed", "x")) is gz.StorageError
