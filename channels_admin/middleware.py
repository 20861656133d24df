"""Refuses console requests that hold what no row can match, before a query is built from it.

Django's admin looks chosen rows and filters up as they come: NUL is no text to PostgreSQL, and an id may be
no number. Both would end as a crash. Must not import: models.
"""

from collections.abc import Callable, Iterable
from typing import Any

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, QueryDict
from django.utils.deprecation import MiddlewareMixin


class OddInputRefused(MiddlewareMixin):
    """400 for NUL in path, query, cookies or form, for chosen rows whose ids are none, for absurd numbers."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        texts = (request.path_info, *_texts(request.GET), *request.COOKIES.values())
        return _refused() if any("\0" in text for text in texts) else None

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], _arguments: object, _named: object
    ) -> HttpResponse | None:
        """Only here: reading a form any earlier would read it for requests that no view serves."""
        if request.method != "POST":
            return None
        if any("\0" in text for text in _texts(request.POST)):
            return _refused()
        model_admin = getattr(view, "model_admin", None)  # Django sets it on each of its admin's views
        chosen = request.POST.getlist(ACTION_CHECKBOX_NAME)
        if model_admin is not None and not all(is_key_of(model_admin.model, text) for text in chosen):
            return _refused()
        return None

    def process_exception(self, _request: HttpRequest, error: Exception) -> HttpResponse | None:
        """SQLite's driver says so of a number beyond 64 bits; PostgreSQL just finds no such row."""
        return _refused() if isinstance(error, OverflowError) else None


def is_key_of(model: Any, text: str) -> bool:
    """Whether a row of the model could have this primary key."""
    key = model._meta.pk  # noqa: SLF001  Django's documented API
    try:
        key.run_validators(key.to_python(text))
    except ValidationError:
        return False
    return True


def _texts(values: QueryDict) -> Iterable[str]:
    for name, texts in values.lists():
        yield name
        yield from (text for text in texts if isinstance(text, str))


def _refused() -> HttpResponse:
    return HttpResponseBadRequest("The request holds a value that cannot be.", content_type="text/plain")
