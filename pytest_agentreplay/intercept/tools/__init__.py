"""Tools: named functions, the tools of frameworks, their arguments and results."""
