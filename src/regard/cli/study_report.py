"""The record of a study written out: page, table and figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.core.study_record import StudyRecord
    from regard.studies.study_folder import StudyFolder


def write_report(record: StudyRecord, folder: StudyFolder, *, page: Path | None = None) -> Path:
    """All of them into the study's folder, or the page elsewhere; where the page is."""
    from regard.core.whole_file import write_whole
    from regard.views.study_csv import study_csv
    from regard.views.study_figures import write_figures
    from regard.views.study_page import study_page

    path = folder.page if page is None else page
    write_whole(path, study_page(record))
    write_whole(folder.table, study_csv(record))
    write_figures(record, folder.figures)
    return path
