"""Declarative configuration: a YAML file says what shall be there, `apply_file` makes it so.

    reading          bytes → YAML → environment put in → schema; every problem with its path
    schema           what a file may hold
    findings         what a run found out: changes, warnings, problems
    flags, stream_policies, channels, model_routes, prices, tenants
                     one subject a file: compare with the rows, call the services
    carrying_out     all subjects of a file
    all_or_nothing   how a file is read and carried out: one transaction, one configuration version
    report           findings → text

What a file does not mention stays as it is. Rows are known by name; a price by model, group and start, a
model route by model and group, an upstream key by its keyed fingerprint, an API key by its name within the
tenant.
"""

from gateway.provisioning.carrying_out import apply_file, apply_text
from gateway.provisioning.findings import NewApiKey, Problem, ProvisioningRefused, Report
from gateway.provisioning.report import report_lines

__all__ = [
    "NewApiKey",
    "Problem",
    "ProvisioningRefused",
    "Report",
    "apply_file",
    "apply_text",
    "report_lines",
]
