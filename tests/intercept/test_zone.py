"""Local time as it was where the run was recorded, and nothing that a file says opens another one."""

import datetime as dt
import os
import time
from contextlib import contextmanager

import pytest

from pytest_agentreplay.intercept.environment import machine as zones
from pytest_agentreplay.intercept.environment.machine import Zone, read_zone

SUMMER = int(dt.datetime(2026, 7, 1, 12, tzinfo=dt.UTC).timestamp()) * 10**9
WINTER = int(dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC).timestamp()) * 10**9

pytestmark = pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone of a process is not to be moved here")


@contextmanager
def held(stored, wall=SUMMER):
    """The zone of a recording, for a block; stopped twice, as once is enough."""
    zone = Zone(stored, wall)
    zone.start()
    try:
        yield
    finally:
        zone.stop()
        zone.stop()


@pytest.fixture
def live_in(monkeypatch):
    def go(name):
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield go
    monkeypatch.undo()
    time.tzset()


def local(wall_ns):
    return dt.datetime.fromtimestamp(wall_ns / 1e9).isoformat()


ZONES = ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC", "<+0545>-05:45", "NST+3:30"]


@pytest.mark.parametrize("there", ZONES)
@pytest.mark.parametrize("here", ["UTC", "Pacific/Auckland"])
def test_local_time_is_that_of_the_recording(live_in, here, there):
    for wall in (SUMMER, WINTER):
        live_in(there)
        stored, was = read_zone(wall), local(wall)
        live_in(here)
        today = local(wall)
        with held(stored, wall):
            assert local(wall) == was
        assert (local(wall), os.environ["TZ"]) == (today, here)


def test_a_name_that_this_machine_does_not_know_goes_by_its_offset(live_in):
    live_in("UTC")
    with held({"name": "Atlantis/Old_Town", "offset": 5400}):
        assert time.localtime(SUMMER // 10**9).tm_gmtoff == 5400
    assert time.localtime(SUMMER // 10**9).tm_gmtoff == 0


@pytest.mark.parametrize("there", ["Europe/Berlin", "America/New_York", "CET-1CEST,M3.5.0,M10.5.0/3", "EST5EDT"])
def test_a_machine_that_knows_no_zones_goes_by_the_rule(live_in, there, monkeypatch):
    live_in(there)
    stored, was = read_zone(WINTER), [local(WINTER), local(SUMMER)]
    assert "," in stored["rule"]
    live_in("UTC")
    monkeypatch.setattr(zones, "FOLDERS", ())
    with held(stored, WINTER):
        assert os.environ["TZ"] == stored["rule"]
        assert [local(WINTER), local(SUMMER)] == was


@pytest.mark.parametrize("stored", [{"name": "Europe/Berlin", "offset": 7200}, {"offset": 7200}])
def test_the_same_zone_is_left_alone(live_in, stored, monkeypatch):
    live_in("Europe/Berlin")
    monkeypatch.setattr(time, "tzset", lambda: pytest.fail("the zone was moved"))
    with held(stored):
        assert os.environ["TZ"] == "Europe/Berlin"


def test_zones_that_agree_today_part_at_the_change_of_summer_time(live_in):
    live_in("Europe/Berlin")
    stored, was = read_zone(WINTER), local(SUMMER)
    live_in("Africa/Lagos")
    assert local(SUMMER) != was
    with held(stored, WINTER):
        assert local(SUMMER) == was


HOSTILE = ["/etc/passwd", ":/etc/passwd", "../../etc/passwd", "Europe/../../x", "a\nb", "", "CET-1CEST,/etc/passwd"]


def test_what_is_no_name_never_reaches_the_system(live_in):
    live_in("UTC")
    for name in (*HOSTILE, 7, None, ["UTC"]):
        with held({"name": name, "rule": name, "offset": 3600}):
            assert os.environ["TZ"] == "<+0100>-01:00", name


def test_what_is_no_zone_moves_nothing(live_in):
    live_in("UTC")
    for stored in (None, {}, "UTC", {"name": "UTC"}, {"offset": "x"}, {"offset": 10**9}):
        with held(stored):
            assert os.environ["TZ"] == "UTC", stored
