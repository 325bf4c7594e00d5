"""What a run reads of its machine: the clock, random numbers, time zone, locale, paths, keys."""
