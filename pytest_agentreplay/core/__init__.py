"""What a run is, and when two runs differ. Pure: no file, clock, thread, environment, pytest or HTTP library."""
