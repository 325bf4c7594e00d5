"""The files of the demo's project; `walk` copies them."""
