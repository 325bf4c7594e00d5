"""What a run is, and when two runs differ. Pure: no file, clock, thread, environment, pytest or HTTP library.

    model  reading  turns  divergence         calls, outcomes, exchanges, turns, and what a difference is
    backends/  case_backend/                  what decides about each call: record, replay, verify, adopt, serve a case
    release_order                             which calls bind the order of which, and how answers are released
    canonical_json  rules                     one normal form, one path language, what is not compared
    matching/                                 whether two calls are the same call
    serialize/  failure                       values and exceptions as JSON, and back
    redaction/                                what may be stored: secrets, headers, places
    diff/  align/  diagnose/                  where two runs differ, and the likely cause

Times, ids and random numbers come in as arguments.
"""
