"""How a file is read and carried out: as a whole, in one transaction, at one configuration version.

A dry run does the same and takes it back, so it refuses exactly what a real run would refuse.
"""

from collections.abc import Callable
from pathlib import Path

from django.db import transaction

from channels_admin.services import configuration_change
from gateway.provisioning.findings import Findings, Problem, ProvisioningRefused, Report


def file_text(path: Path, *, bytes_max: int) -> str:
    """UTF-8, with a byte order mark or without. Raises ProvisioningRefused."""
    try:
        with path.open("rb") as file:
            content = file.read(bytes_max + 1)
    except OSError as error:
        raise _refused(path, error.strerror or "cannot be read") from error
    if len(content) > bytes_max:
        raise _refused(path, f"is larger than {bytes_max} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _refused(path, "is no UTF-8 text") from None


def carried_out(
    carry_out: Callable[[Findings], None], findings: Findings, *, name: str, is_dry_run: bool
) -> Report:
    """carry_out: calls the services and adds to the findings, which may hold problems of the reading.

    name: what messages call the file. Raises ProvisioningRefused with every problem, nothing changed.
    """
    with configuration_change():
        carry_out(findings)
        report = findings.report(is_dry_run=is_dry_run)
        if findings.problems or is_dry_run or not report.has_changes:
            transaction.set_rollback(True)  # the version, too, stays as it was
    if findings.problems:
        raise ProvisioningRefused(name, findings.problems)
    return report


def _refused(path: Path, reason: str) -> ProvisioningRefused:
    return ProvisioningRefused(str(path), [Problem("", reason)])
