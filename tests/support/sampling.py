"""Tables of every case: the default lane tries the first row of each class, `--exhaustive` tries all."""

import pytest


def sample(rows, *, key):
    """The rows as parameters, all but the first of each class (what `key` makes of a row) marked as exhaustive."""
    seen, parameters = set(), []
    for row in rows:
        marks = pytest.mark.exhaustive if key(row) in seen else ()
        seen.add(key(row))
        parameters.append(pytest.param(row, marks=marks))
    return parameters
