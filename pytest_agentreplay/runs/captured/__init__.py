"""Captured runs against the code of today: sampled, replayed, compared on two levels, grouped by cause."""
