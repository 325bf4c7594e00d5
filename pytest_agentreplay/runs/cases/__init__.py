"""How a case is evaluated: against its frozen run, and against the agent of today, in this process or by a command."""
