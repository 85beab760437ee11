"""Places of the source tree, and of the environment under test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

#: The root of the source tree.
ROOT = Path(__file__).resolve().parents[3]
QUICKSTART = ROOT / "testdata" / "quickstart"


@pytest.fixture
def pair() -> list[str]:
    """Two files that make a program."""
    return [str(QUICKSTART / name) for name in ("saxpy.cubin", "smooth.cubin")]


@pytest.fixture
def cubins() -> Path:
    """A folder with the inputs of the recorded cases as files, which the task has written."""
    folder = os.environ.get("CULD_CASES")
    if folder is None:
        pytest.skip("CULD_CASES names no folder of cases: 'cargo xtask python' does")
    return Path(folder)
