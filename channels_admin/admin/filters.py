"""List filters over the texts inside a JSON list."""

# ruff: noqa: ARG002
# Django's hooks have fixed signatures, and `_meta` is its documented API.

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from channels_admin.models import Channel


class _WordFilter(admin.SimpleListFilter):
    """Rows whose JSON list holds a word. By text: SQLite has no JSON containment."""

    field: ClassVar[str]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        lists = Channel.objects.order_by().values_list(self.field, flat=True)
        return [(word, word) for word in sorted({word for words in lists for word in words})]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Channel]) -> QuerySet[Channel]:
        word = self.value()
        if word is None:
            return queryset
        matching = Channel.objects.annotate(words=Cast(self.field, TextField()))
        # The quotes make it the whole word; a backslash or quote inside would be written escaped.
        return queryset.filter(pk__in=matching.filter(words__contains=f'"{word}"').values("pk"))


class GroupFilter(_WordFilter):
    title, parameter_name, field = _("group"), "group", "groups"


class TagFilter(_WordFilter):
    title, parameter_name, field = _("tag"), "tag", "tags"


class ModelFilter(_WordFilter):
    title, parameter_name, field = _("model"), "model", "models"
