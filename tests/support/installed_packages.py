"""A package among those that are installed, as far as entry points look: a module, and what an installer writes beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def install_package(folder: Path, module: str, text: str, group: str, names: dict[str, str]) -> None:
    """Write a package of one module into `folder`, which is on `sys.path`; `names` are its entry points in `group`."""
    (folder / f"{module}.py").write_text(text)
    about = folder / f"{module}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module.replace('_', '-')}\nVersion: 1.0\n")
    lines = [f"{name} = {module}:{value}" for name, value in names.items()]
    (about / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]))
