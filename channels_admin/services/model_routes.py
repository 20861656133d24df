"""Model routes: set and closed. Known by model and group, of which one is open at a time."""

from typing import TypedDict, Unpack

from channels_admin.models import ModelRoute, StreamPolicy
from channels_admin.services.config_version import configuration_change, row_save, row_switch


class ModelRouteFields(TypedDict, total=False):
    """As the model's fields of the same names."""

    is_artefact: bool
    hedge_after_ms: int
    degrade_to_non_stream: bool
    fallback_models: list[str]
    policy: StreamPolicy | None


def model_route_set(*, model: str, group: str = "", **fields: Unpack[ModelRouteFields]) -> ModelRoute:
    """The open route of model and group, or a new one. Fields not named stay. Raises ValidationError."""
    with configuration_change() as version:
        found = ModelRoute.objects.filter(model=model, group=group, is_closed=False).first()
        row = found or ModelRoute(model=model, group=group)
        row_save(row, version, fields)
        return row


def model_route_update(
    *, route_id: int, model: str | None = None, group: str | None = None, **fields: Unpack[ModelRouteFields]
) -> ModelRoute:
    """Also for another model or group. Raises ValidationError, ModelRoute.DoesNotExist."""
    named = {name: value for name, value in {"model": model, "group": group}.items() if value is not None}
    with configuration_change() as version:
        row = ModelRoute.objects.get(pk=route_id, is_closed=False)
        row_save(row, version, {**named, **fields})
        return row


def model_route_close(*, route_id: int) -> ModelRoute:
    """Raises ModelRoute.DoesNotExist. Closed it stays: set anew it is another row."""
    with configuration_change() as version:
        row = ModelRoute.objects.get(pk=route_id)
        row_switch(row, version, {"is_closed": True})
        return row
