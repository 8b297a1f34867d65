import time

import numpy as np

from soar.data import bundled
from soar.data.files import state


def test_classes_are_balanced() -> None:
    source = bundled.read()
    assert np.bincount(source.train.labels).tolist() == [1000] * 10
    assert np.bincount(source.test.labels).tolist() == [200] * 10


def test_pixels_are_those_of_the_original() -> None:
    source = bundled.read()
    assert source.train.images.shape == (10000, 1, 28, 28)
    assert source.train.images.sum() == 573_133_949
    assert source.test.images.sum() == 114_072_606
    assert source.train.labels[:10].tolist() == [9, 0, 0, 3, 0, 2, 7, 2, 5, 5]


def test_indices_are_positions_in_the_full_files() -> None:
    for part, last in ((bundled.read().train, 10647), (bundled.read().test, 2087)):
        assert part.indices[-1] == last
        assert (np.diff(part.indices) > 0).all()


def test_files_are_whole_and_licensed() -> None:
    assert [state(bundled.FOLDER, file) for file in bundled.FILES] == ["ok"] * 3
    assert [(bundled.FOLDER / file.name).stat().st_size for file in bundled.FILES] == [
        file.size for file in bundled.FILES
    ]
    assert "Copyright (c) 2017 Zalando SE" in (bundled.FOLDER / "LICENSE").read_text()


def test_reading_is_quick() -> None:
    started = time.process_time()
    bundled.read()
    assert time.process_time() - started < 2.0
