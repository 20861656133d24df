"""What the console's pages of records share: nothing is added, changed or deleted, nothing counts a table.

Must not import: services.
"""

from functools import cached_property
from typing import Any

from django.contrib.admin import ShowFacets
from django.core.paginator import Paginator
from django.db.models import Model
from django.http import HttpRequest
from unfold.admin import ModelAdmin

ROWS_MAX = 5_000


class BoundedPaginator(Paginator):  # type: ignore[type-arg]  # it takes none at run time
    """Pages through the newest rows only: counting or skipping millions would stop the console.

    Filters, `before` among them, and the search reach what is older.
    """

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows[:ROWS_MAX].count())


class RecordAdmin(ModelAdmin):
    paginator = BoundedPaginator
    list_per_page = 50
    list_max_show_all = 50
    show_full_result_count = False
    show_facets = ShowFacets.NEVER  # facets count, too
    sortable_by: tuple[str, ...] = ()  # another order would read the whole table
    list_filter_submit = True

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002  Django's signature
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002  Django's signature
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002  Django's signature
        return False
