"""Keys that a fresh machine does not have yet: made once, kept in DATA_DIR, readable by the owner only."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path


def _long_secret() -> str:
    return secrets.token_urlsafe(48)


def kept_secret(data_dir: Path, name: str, make: Callable[[], str] = _long_secret) -> str:
    """The secret in `data_dir/name`, made on first use. Two processes that race agree on one."""
    path = data_dir / name
    if not path.exists():
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = data_dir / f".{name}.{os.getpid()}.{secrets.token_hex(4)}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(make())
        try:
            os.link(draft, path)  # link fails if the other process was first
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_text().strip()
