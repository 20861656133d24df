"""Deploy mistakes as system checks, each with an id. `manage.py check` and `make check` run them."""
