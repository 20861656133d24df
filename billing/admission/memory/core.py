"""What the two ports of the in-process store share: one lock, one clock, one book."""

import secrets
import threading
from collections.abc import Callable

from billing.admission.memory.book import Book
from billing.admission.memory.rates import Rates


class Core:
    """lock: held by whoever touches `book` or `rates`, for microseconds. now: the store's clock, seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.lock = threading.Lock()
        self.book = Book()
        self.rates = Rates()
        self.boot_id = secrets.token_hex(8)
