"""Child processes: how a Python child joins the run of its test, and how the calls of others are served."""
