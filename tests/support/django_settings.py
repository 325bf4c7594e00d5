"""Django as every test of one process has it: its settings are made once."""

from __future__ import annotations

import django
from django.conf import settings


def set_up_django():
    """Make the settings unless another test has, and load the applications."""
    if not settings.configured:
        database = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
        settings.configure(
            DATABASES={"default": database},
            DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
            ALLOWED_HOSTS=["*"],
            SECRET_KEY="any",
        )
        django.setup()
