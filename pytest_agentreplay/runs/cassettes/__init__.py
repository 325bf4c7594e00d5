"""Suites that test agents on cassettes of vcrpy: audited, replayed strictly, and converted to snapshots.

vcrpy_values    requests and replies of vcrpy as ours
verdicts        a played request beside the recorded one
watching        what vcrpy plays, by wraps of its class
cassetter       the same of cassetter
audit           the counts of a session, and its baseline
"""
