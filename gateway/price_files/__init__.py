"""Price files: what `manage.py prices export` writes and `manage.py prices import` reads.

    tables       YAML, JSON and CSV ↔ plain entries, each with the place where it stands
    litellm      the shape of LiteLLM's price list → the same entries
    exporting    open rows → entries
    importing    entries → judged, compared, set: everything or nothing

An entry says the whole price: what it leaves out is unset. (`manage.py apply` leaves it as it is.) Rows that
a file does not mention stay. The schema of an entry is that of `gateway.provisioning`.
"""

from gateway.price_files.exporting import export_text
from gateway.price_files.importing import import_file

__all__ = ["export_text", "import_file"]
