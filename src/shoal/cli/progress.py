"""Progress bars for long commands, on terminals only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from shoal.admin.report import Progress, nothing


@contextmanager
def bars() -> Iterator[Progress]:
    """Yield a progress callback that shows a bar on standard error for each phase."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield nothing
        return
    columns = (TextColumn("{task.description:>16}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    tasks: dict[str, TaskID] = {}
    with Bars(*columns, console=console) as shown:

        def progress(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = shown.add_task(phase, total=total or None)
            shown.update(tasks[phase], completed=done, total=total or None)

        yield progress
