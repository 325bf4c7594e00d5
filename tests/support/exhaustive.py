"""Rows of a parametrised test that only `pytest --exhaustive` tries."""

import pytest


def rare(*rows):
    """Return the rows, each marked exhaustive; a row of several values is a tuple."""
    return [pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.exhaustive) for row in rows]
