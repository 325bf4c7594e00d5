"""Settings that were compared: a table for a terminal, for a spreadsheet, for a browser."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, fields
from html import escape
from typing import TYPE_CHECKING

from pytest_agentreplay.core.live.comparison import ComparedSetting
from pytest_agentreplay.report.escape import line, safe

if TYPE_CHECKING:
    from collections.abc import Sequence

COLUMNS = tuple(field.name for field in fields(ComparedSetting))
_LAYOUT = "  {:22.22} {:>8} {:>9} {:>6} {:>8} {:>7} {:>6}  {}"
_STYLE = "body{font:14px sans-serif}td,th{padding:2px 8px;text-align:left;border-bottom:1px solid #ccc}"


def comparison_text(rows: Sequence[ComparedSetting]) -> str:
    """Return the rows in 80 columns, each test's under its name."""
    lines = [_LAYOUT.format("setting", "passed", "+ - =", "p", "cost", "tokens", "time", "").rstrip()]
    for at, row in enumerate(rows):
        if at == 0 or row.test != rows[at - 1].test:
            lines.append(line(row.test) or "all tests")
        pairs = (f"{row.wins} {row.losses} {row.ties}", f"{row.p:.3f}") if row.verdict else ("", "")
        cost = "" if row.cost is None else f"${row.cost:.4f}"
        passed, used = f"{row.passes}/{row.runs}", (f"{row.tokens:.0f}", f"{row.seconds:.2f}")
        lines.append(_LAYOUT.format(line(row.setting), passed, *pairs, cost, *used, "").rstrip())
        lines += [f"    {line(why)}" for why in (row.verdict, row.stopped) if why]
    return "\n".join(lines)


def comparison_csv(rows: Sequence[ComparedSetting]) -> str:
    """Return the rows as CSV; no spreadsheet takes a text of it for a formula."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    for row in rows:
        cells = asdict(row).values()
        table.writerow([f"'{cell}" if isinstance(cell, str) and cell[:1] in {*"=+-@\t\r"} else cell for cell in cells])
    return out.getvalue()


def comparison_html(rows: Sequence[ComparedSetting], notes: Sequence[str]) -> str:
    """Return the rows as a page that needs nothing else."""
    table = [COLUMNS, *(asdict(row).values() for row in rows)]
    body = "\n".join(f"<tr>{''.join(f'<td>{escape(safe(str(cell)))}</td>' for cell in cells)}</tr>" for cells in table)
    notes = "".join(f"<p>{escape(safe(note))}</p>" for note in notes)
    head = f'<!doctype html><meta charset="utf-8"><title>agentreplay compare</title><style>{_STYLE}</style>'
    return f"{head}\n<table>\n{body}\n</table>\n{notes}\n"
