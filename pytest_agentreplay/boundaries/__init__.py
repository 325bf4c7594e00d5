"""The seams where the world comes in: one file per seam, all of them asking at `crossing`."""
