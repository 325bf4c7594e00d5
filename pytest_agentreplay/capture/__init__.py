"""Capture the runs of a service, outside pytest: `capture.start("runs/", keep="failed")`."""
