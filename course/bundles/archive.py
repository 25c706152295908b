"""Files in one archive, the same bytes for the same files."""

import io
import zipfile
from pathlib import PurePosixPath


def archive_of(files: dict[str, bytes], top: str = "", runnable: tuple[str, ...] = ()) -> bytes:
    """Return a ZIP archive of files, the same bytes for the same files.

    Args:
        top: a folder around all of them.
        runnable: files that are programs.
    """
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in sorted(files.items()):
            entry = zipfile.ZipInfo((PurePosixPath(top) / path).as_posix(), date_time=(2020, 1, 1, 0, 0, 0))
            entry.create_system = 3  # Unix: the permissions below count wherever it was made
            entry.external_attr = (0o100755 if path in runnable else 0o100644) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return held.getvalue()
