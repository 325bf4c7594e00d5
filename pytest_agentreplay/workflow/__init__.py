"""The hall: how one test is recorded or replayed, from settings to finding, and what a person takes afterwards.

    begin      decides how a test is met                scene      what the kinds of tests share
    recording  everything runs, and is kept             replaying  everything is answered from the snapshot
    adopting   new requests under old replies           sealing    the last scan before anything is written
    accept     pending runs, journals, project rules    kit        what was around a run
    handle     what the fixture gives to a test         choosing   which files a command line means
    unchanged  whether a new recording says the same

Joins the wings; knows no pytest.
"""
