"""PURE: what one live run gave, whether it is the recorded run within tolerances, and what many of them prove.

axes         which layers of a run are frozen, and which are live
observation  what a run shows, as the document that the paths of tolerances lead into
live_verdict what the runs of one test prove together, and which layer moved
budget       the most that a call of a model can take, limits and prices
result       one live run as plain data: what a pytest item reports, the history keeps and every command reads
lineup       which layers make a run drift: released one at a time, then the smallest set that does
statistics   when enough runs are done, how sure a pass rate is, and which of two settings did better
changed_layers   which layer made two recordings differ, without a model
"""
