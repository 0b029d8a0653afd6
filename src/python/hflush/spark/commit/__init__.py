"""The commit of a job: many files become part of a directory together, or none does.

Parts, from pure to practical: :mod:`.records` and :mod:`.reports` are the values, :mod:`.layout` is
what the names of files say, :mod:`.machine` decides (no I/O), :mod:`.log` keeps the intents and the
records of a directory, :mod:`.staging` keeps the files until they are published, :mod:`.committer`
executes what the machine wants, :mod:`.vacuum` cleans, also what streaming queries have left
(:mod:`.strays`).

Nothing here knows Spark: any program that writes files in tasks can use it. docs/semantics.md has
the promises.
"""

from __future__ import annotations

from .committer import Committer, LostFilesError
from .machine import Outcome
from .records import Identity, Job, Mode, Record, StagedFile
from .reports import Report, TaskReport
from .vacuum import Vacuumed, vacuum

__all__ = [
    "Committer",
    "Identity",
    "Job",
    "LostFilesError",
    "Mode",
    "Outcome",
    "Record",
    "Report",
    "StagedFile",
    "TaskReport",
    "Vacuumed",
    "vacuum",
]
