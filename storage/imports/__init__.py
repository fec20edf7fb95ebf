"""Imports a folder of users, posts, follows and engagements into the truth; called by the cli.

Files are read row by row (`files`, `fields`) and copied into temporary tables. There they are
checked as sets, and written in chunks, one transaction each (`users`, `posts`, `follows`,
`engagements`). Counters and affinity change in the same transaction as the rows they come from,
so an import can stop anywhere and be run again. `folder` puts it together.
"""

from storage.imports.folder import import_folder
from storage.imports.report import Counts, Listener, Refusal, Report

__all__ = ["Counts", "Listener", "Refusal", "Report", "import_folder"]
