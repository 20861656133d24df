"""All subjects of a file, in the order in which they need each other: everything or nothing."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from gateway.provisioning.all_or_nothing import carried_out, file_text
from gateway.provisioning.channels import channels_provision
from gateway.provisioning.findings import Findings, ProvisioningRefused, Report
from gateway.provisioning.flags import flags_provision
from gateway.provisioning.model_routes import model_routes_provision
from gateway.provisioning.prices import (
    cost_prices_provision,
    group_multipliers_provision,
    prices_provision,
)
from gateway.provisioning.reading import Reading, located, read_text
from gateway.provisioning.stream_policies import stream_policies_provision
from gateway.provisioning.tenants import tenants_provision
from gateway.provisioning.yaml_text import MAX_BYTES, UnreadableYaml


def apply_file(path: Path, *, is_dry_run: bool = False, environ: Mapping[str, str] | None = None) -> Report:
    """Raises ProvisioningRefused with every problem; then nothing was changed."""
    text = file_text(path, bytes_max=MAX_BYTES)
    return apply_text(text, name=str(path), is_dry_run=is_dry_run, environ=environ)


def apply_text(
    text: str, *, name: str, is_dry_run: bool = False, environ: Mapping[str, str] | None = None
) -> Report:
    """name: what messages call the file. environ: what `${NAME}` reads, by default the process's own.

    Raises ProvisioningRefused.
    """
    try:
        reading = read_text(text, os.environ if environ is None else environ)
    except UnreadableYaml as error:
        raise ProvisioningRefused(name, error.problems) from None
    return carried_out(
        partial(_carry_out, reading), Findings(reading.problems), name=name, is_dry_run=is_dry_run
    )


def _carry_out(reading: Reading, findings: Findings) -> None:
    asked = reading.asked
    flags_provision(asked.flags, findings)
    policies = zip(located(reading, "stream_policies"), asked.stream_policies, strict=True)
    stream_policies_provision(policies, findings)
    channels = zip(located(reading, "channels"), asked.channels, strict=True)
    channels_provision(channels, findings, policy_names=reading.policy_names)
    routes = zip(located(reading, "model_routes"), asked.model_routes, strict=True)
    model_routes_provision(routes, findings, policy_names=reading.policy_names)
    prices_provision(zip(located(reading, "prices"), asked.prices, strict=True), findings)
    costs = zip(located(reading, "cost_prices"), asked.cost_prices, strict=True)
    cost_prices_provision(costs, findings, channel_names=reading.channel_names)
    multipliers = zip(located(reading, "group_multipliers"), asked.group_multipliers, strict=True)
    group_multipliers_provision(multipliers, findings)
    tenants_provision(zip(located(reading, "tenants"), asked.tenants, strict=True), findings)
