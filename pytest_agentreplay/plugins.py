"""What a patch module for another framework is made of (docs/how-to/framework-tools.md, "Another framework").

Names that are here stay; what they are made of, below `pytest_agentreplay.intercept`, may move with any release.
"""

from __future__ import annotations

from pytest_agentreplay.intercept.tools.framework import FrameworkTool, copy_tool, field_codecs, intercept_tool, wrap

__all__ = ["FrameworkTool", "copy_tool", "field_codecs", "intercept_tool", "wrap"]
