"""Suites that test agents on cassettes of vcrpy: audited, replayed strictly, and converted to snapshots.

verdicts        a played request beside the recorded one, in our terms
watching        what vcrpy and cassetter play, by wraps of their classes
converting      a test recorded from its cassettes, and the marks in its source
audit           the counts of a session, and its baseline
"""
