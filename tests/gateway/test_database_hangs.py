"""A database server that takes connections and says nothing is found out in seconds, not in hours."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_server_that_never_answers_is_given_up(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        environment = os.environ | {
            "DATABASE_URL": f"postgres://nobody@127.0.0.1:{port}/none",
            "DATA_DIR": str(tmp_path),
        }
        began = time.monotonic()
        run = subprocess.run(
            [sys.executable, "manage.py", "migrate"],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=40,
            check=False,
        )
    assert run.returncode != 0
    assert "OperationalError" in run.stderr
    assert time.monotonic() - began < 30
