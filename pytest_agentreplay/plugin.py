"""Door 1: pytest glue only."""
