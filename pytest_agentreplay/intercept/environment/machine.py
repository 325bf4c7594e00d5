"""Of the machine, what a recording keeps and a replay shows: keys, directories, names, locale, time zone."""

from __future__ import annotations

import functools
import getpass
import locale
import os
import platform
import re
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.intercept.session.interceptions import find_interception
from pytest_agentreplay.redaction.secret_names import CATEGORY, is_key_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_agentreplay.model.exchanges import Json, JsonObject

PLACEHOLDER = "replayed-and-never-sent"
# Variables of one recording: a file says which, and files are anyone's.
MOST = 50


class MissingKeys:
    """Placeholders for the variables in `stored` that are not set, or empty, as CI sets a secret that it withholds."""

    def __init__(self, stored: Json) -> None:
        """`stored` is what `key_variables` returned; anything else in it is left out."""
        groups = stored if isinstance(stored, list) else []
        self.groups: dict[str, list[str]] = {}
        """The names of the variables that share a placeholder, by the placeholder."""
        for number, group in enumerate(groups[:MOST], 1):
            texts = [name for name in group if isinstance(name, str)] if isinstance(group, list) else []
            if names := [name for name in texts[:MOST] if is_key_name(name) and not os.environ.get(name)]:
                self.groups[f"{PLACEHOLDER}-{number}"] = names
        self._before: dict[str, str | None] = {}

    def start(self) -> None:
        """Set the placeholders; one that the test has deleted since is not set again."""
        for placeholder, names in self.groups.items():
            for name in names:
                if name not in self._before and os.environ.get(name, "") in {"", os.devnull}:
                    self._before[name] = os.environ.get(name)
                    os.environ[name] = placeholder

    def stop(self) -> None:
        """Remove the placeholders that are still there. A second call does nothing."""
        for placeholder, names in self.groups.items():
            for name in names:
                if name in self._before and os.environ.get(name) == placeholder:
                    restore_variables({name: self._before[name]})
        self._before.clear()


# Variables by which a library does without what its import would ask for; a refused one asks again, for seconds.
OFFLINE = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}


@contextmanager
def set_offline() -> Iterator[None]:
    """A block in which the variables of `OFFLINE` are set, where they were not."""
    unset = {name: value for name, value in OFFLINE.items() if name not in os.environ}
    os.environ.update(unset)
    try:
        yield
    finally:
        for name, value in unset.items():
            if os.environ.get(name) == value:
                del os.environ[name]


_named: dict[str, None] = {}


def secret(value: str) -> str:
    """Never write a value, in any encoding, in this test and in all others.

    What was recorded before is redacted when the run is written. Safe from any thread.

    Args:
        value: The secret. Less than 8 characters cannot be told from other text, and are left as they are.

    Returns:
        The value, so that the call can stand around it.
    """
    _named[value] = None
    if (interception := find_interception()) is not None:
        interception.redactor.learn(CATEGORY, value)
    return value


def list_secrets() -> list[str]:
    """What has been named so far."""
    return list(_named)


# Links of the system that directories are told through.
LINKS = ("/tmp", "/var")  # noqa: S108  on macOS both lead into /private


def find_places(root: Path, *, tmp: Path | None = None) -> dict[str, str]:
    """Mark -> today's value: rootdir, current directory, the test's `tmp_path`, temp and home directory, host, user.

    A directory has several spellings, all of which turn up in prompts: as programs are told it, as it really is, and
    through a link above it. Each gets a mark of its own.
    """
    temporary = tempfile.gettempdir()
    folders = {"root": root, "cwd": Path.cwd(), "tmp": tmp, "tempdir": Path(temporary), "home": find_home()}
    links = {resolved(link): link for link in (*LINKS, temporary)}
    places: dict[str, str] = {}
    for mark, folder in folders.items():
        if folder is None or str(folder) in places.values():
            continue
        places[mark] = str(folder)
        real = os.path.realpath(folder) if mark == "tmp" else resolved(str(folder))
        for kind, spelling in (("real", real), ("link", follow_link(real, links))):
            if spelling not in places.values():
                places[kind + mark] = spelling
    places["host"] = platform.node()
    places["user"] = find_user_name(*map(os.environ.get, USER_VARIABLES))
    return {mark: value for mark, value in places.items() if value}


# For links of the system and folders of a whole session, which lead elsewhere in no session: each takes 20 us.
resolved = functools.cache(os.path.realpath)
USER_VARIABLES = ("LOGNAME", "USER", "LNAME", "USERNAME")


@functools.cache
def find_user_name(*_: str | None) -> str:
    """Return the name of the user, which these variables may say; "" for a number without a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # as in some containers; Windows may have neither
        return ""


def follow_link(real: str, links: Mapping[str, str]) -> str:
    """The directory `real` as it is spelled through one of `links` (where it leads -> the link), the nearest one."""
    for target in sorted(links, key=len, reverse=True):
        rest = real.removeprefix(target)
        if rest != real and rest[:1] in {"", "/", "\\"}:
            return links[target] + rest
    return real


def find_home() -> Path | None:
    """The home directory, or None where the system does not say."""
    try:
        return Path.home()
    except RuntimeError:
        return None


LOCALE_NAME = re.compile(r"[A-Za-z][\w.@+ -]{0,63}", re.ASCII)
# Not LC_CTYPE: Python has its own letters, and the encoding of files that are opened hangs on it.
CATEGORIES = ("LC_COLLATE", "LC_MONETARY", "LC_NUMERIC", "LC_TIME")
VARIABLES = ("LC_ALL", *CATEGORIES, "LC_MESSAGES", "LANG")


def read_locale(environ: Mapping[str, str]) -> JsonObject:
    """The locales in force by category, where it is not "C", and the variables that would choose others."""
    now: JsonObject = {category: name for category, name in read_categories().items() if name != "C"}
    variables = {name: environ[name] for name in VARIABLES if LOCALE_NAME.fullmatch(environ.get(name, ""))}
    return {**({"now": now} if now else {}), "variables": dict(variables)}


def read_categories() -> dict[str, str]:
    """The locale of each category."""
    return {name: locale.setlocale(getattr(locale, name)) for name in CATEGORIES}


class Locale:
    """The locale of a recording in the place of today's, where it is another. `missing`: what this machine lacks."""

    def __init__(self, stored: Json) -> None:
        """`stored` is what `read_locale` gave; anything else, and the locale of today stays."""
        fields = stored if isinstance(stored, dict) else {}
        self._now = dict.fromkeys(CATEGORIES if fields else (), "C") | pick_locale_names(fields.get("now"), CATEGORIES)
        unset = dict.fromkeys(VARIABLES if "variables" in fields else ())
        self._variables: dict[str, str | None] = {**unset, **pick_locale_names(fields.get("variables"), VARIABLES)}
        self._before: dict[str, str | None] = {}
        self._set: dict[str, tuple[str, str]] = {}
        self.missing: list[str] = []

    def start(self) -> None:
        """The locale is that of the recording, as far as this machine has it."""
        self.missing.clear()  # it may be started again after a pause
        self._before = {name: os.environ.get(name) for name in self._variables}
        restore_variables(self._variables)
        for category, today in read_categories().items():
            name = self._now.get(category, today)
            if name == today:
                continue
            if choose(category, name):
                self._set[category] = today, read_categories()[category]
            else:
                self.missing.append(f"{category}={name}")

    def stop(self) -> None:
        """The locale is today's again, but for what the agent chose itself. A second call does nothing."""
        restore_variables(self._before)
        for category, (today, ours) in self._set.items():
            if read_categories()[category] == ours:
                choose(category, today)
        self._before, self._set = {}, {}


def pick_locale_names(stored: Json, keys: tuple[str, ...]) -> dict[str, str]:
    """What of `stored` is the name of a locale, under one of `keys`."""
    items = stored.items() if isinstance(stored, dict) else ()
    return {key: name for key, name in items if key in keys and isinstance(name, str) and LOCALE_NAME.fullmatch(name)}


def choose(category: str, name: str) -> bool:
    """Set one category; gives whether the machine has that locale."""
    try:
        locale.setlocale(getattr(locale, category), name)
    except locale.Error:
        return False
    return True


def restore_variables(variables: Mapping[str, str | None]) -> None:
    """Set variables of the environment, or take them away, where they are not so already."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        elif os.environ.get(name) != value:
            os.environ[name] = value


ZONE_NAME = re.compile(r"[A-Za-z][\w+-]*(/[A-Za-z][\w+-]*){0,2}", re.ASCII)
_TIME = r"[+-]?\d{1,3}(?::\d\d){0,2}"
_ABBREVIATION = r"(?:[A-Za-z]{3,10}|<[A-Za-z\d+-]{3,10}>)"
_DAY = rf"(?:J?\d{{1,3}}|M\d{{1,2}}\.\d\.\d)(?:/{_TIME})?"
# What POSIX takes for `TZ`: how far from UTC, and from which day to which other in summer.
RULE = re.compile(rf"{_ABBREVIATION}{_TIME}(?:{_ABBREVIATION}(?:{_TIME})?(?:,{_DAY},{_DAY})?)?", re.ASCII)
FOLDERS = ("/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo")
LARGEST_OFFSET = 26 * 3600  # seconds that a zone is from UTC


def read_zone(wall_ns: int) -> JsonObject:
    """The zone at `wall_ns` nanoseconds since the epoch: name and rule, where known, and seconds from UTC."""
    name = read_zone_name()
    zone: JsonObject = {"name": name, "rule": read_zone_rule(name), "offset": compute_offset(wall_ns)}
    return {key: value for key, value in zone.items() if value != ""}


def read_zone_name() -> str:
    """The name of today's zone, "" where the system does not say it."""
    name = os.environ.get("TZ", "").removeprefix(":") or resolved("/etc/localtime").partition("zoneinfo/")[2]
    return name if ZONE_NAME.fullmatch(name) else ""


def read_zone_rule(name: str) -> str:
    """The rule by which a zone goes from its last change on: the file's last line, or `TZ` itself; "" when unknown."""
    rule = os.environ.get("TZ", "")
    if name and (file := find_zone_file(name)) is not None:
        rule = file.read_bytes().rpartition(b"\n")[0].rpartition(b"\n")[2].decode("ascii", "replace")
    return rule if RULE.fullmatch(rule) else ""


def find_zone_file(name: str) -> Path | None:
    """The file that this machine has of a zone."""
    return next((file for folder in FOLDERS if (file := Path(folder) / name).is_file()), None)


def compute_offset(wall_ns: int) -> int:
    """Seconds that local time is ahead of UTC at `wall_ns`."""
    return time.localtime(wall_ns // 1_000_000_000).tm_gmtoff


class Zone:
    """The zone of a recording, put in the place of today's where it is another; on Windows nothing moves it.

    Two zones that agree at the start of a run may part at a change of summer time, or in a date that the agent counts.
    """

    def __init__(self, stored: Json, wall_ns: int) -> None:
        """`stored` is what `read_zone` gave; anything else, and the zone of today stays."""
        fields = stored if isinstance(stored, dict) else {}
        name, rule, offset = fields.get("name"), fields.get("rule"), fields.get("offset")
        self._name = name if isinstance(name, str) and ZONE_NAME.fullmatch(name) else ""
        self._rule = rule if isinstance(rule, str) and RULE.fullmatch(rule) else ""
        self._offset = offset if isinstance(offset, int) and abs(offset) <= LARGEST_OFFSET else None
        self._wall = wall_ns
        self._before: str | None = None
        self._started = False

    def start(self) -> None:
        """Local time is that of the recording."""
        offset, wall = self._offset, self._wall
        if offset is None or sys.platform == "win32":
            return
        if compute_offset(wall) == offset and (self._name or self._rule) in {
            "",
            read_zone_name() or os.environ.get("TZ", ""),
        }:
            return
        self._before, self._started = os.environ.get("TZ"), True
        is_known_name = self._name and (find_zone_file(self._name) is not None or not self._rule)
        if chosen := self._name if is_known_name else self._rule:
            _set_zone(chosen)
        if not chosen or compute_offset(wall) != offset:
            # This machine does not know the name: the offset alone, which POSIX counts the other way round.
            hours, minutes = divmod(abs(offset) // 60, 60)
            behind, ahead = ("-", "+") if offset >= 0 else ("", "-")
            _set_zone(f"<{ahead}{hours:02}{minutes:02}>{behind}{hours:02}:{minutes:02}")

    def stop(self) -> None:
        """Local time is today's again. A second call does nothing."""
        if self._started:
            self._started = False
            _set_zone(self._before)


def _set_zone(name: str | None) -> None:
    restore_variables({"TZ": name})
    if sys.platform != "win32":
        time.tzset()
