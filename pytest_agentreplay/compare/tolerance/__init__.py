"""PURE: when two results, or two runs, are near enough: one language and one engine for verify, cases and live runs.

tolerance_forms   the language: a place, and what may differ there
comparing         the engine: two trees side by side, under the rule of each place; frozen values as paths see them
tolerance_policy  the rules of a project, a test or a case, with the shipped ones behind them
"""

from pytest_agentreplay.compare.tolerance.comparing import view
from pytest_agentreplay.compare.tolerance.tolerance_forms import Level, Tolerance, is_named, parse
from pytest_agentreplay.compare.tolerance.tolerance_policy import TolerancePolicy, find_reach

__all__ = ["Level", "Tolerance", "TolerancePolicy", "find_reach", "is_named", "parse", "view"]
