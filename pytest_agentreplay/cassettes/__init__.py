"""Suites that test agents on cassettes of vcrpy: audited, replayed strictly, and converted to snapshots.

vcrpy_values    requests and replies of vcrpy as ours
"""
