"""How one test is recorded, replayed, proved and reported; no pytest.

session_factory    decides how a test runs            run_session      what all sessions share
recording_session  everything runs, and is kept       replay_session   everything is answered from the snapshot
adopting           new requests under old replies     accept           pending runs, journals, project rules
fork_session       recorded turns, then the model
fixture_session    a fixture wider than a test        proof_process    a fresh pytest that proves new recordings
fixture_handle     what the fixture gives to a test   replay_kit       what was around a run
child_session      a Python child of a test           late_calls       calls after the end of their test
"""
