"""What a call, an outcome, an exchange, a run, a turn, a rule and a divergence are."""
