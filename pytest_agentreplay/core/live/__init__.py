"""PURE: what one live run gave, whether it is the recorded run within tolerances, and what many of them prove.

observation  what a run shows, as the document that the paths of tolerances lead into
budget       the most that a call of a model can take, limits and prices
result       which layers are live, and one run as plain data: what items report and verbs read
lineup       which layers make a run drift: the smallest set; and which made two recordings differ, without a model
statistics   when enough runs are done, how sure a pass rate is, which of two settings did better, which layer moved
"""
