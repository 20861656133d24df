"""`manage.py simulate_upstream`."""

import io
import socket

import pytest
from django.core.management import CommandError, call_command

from gateway.simulator import all_behaviours


def test_list_prints_every_behaviour_with_its_meaning():
    out = io.StringIO()
    call_command("simulate_upstream", "--list", stdout=out)
    lines = out.getvalue().splitlines()
    for row in all_behaviours():
        assert any(line.startswith(f"  {row.example} ") and line.endswith(row.meaning) for line in lines)


def test_taken_port_is_told_without_a_traceback():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CommandError, match=f"Cannot listen on 127.0.0.1:{port}"):
            call_command("simulate_upstream", "--port", str(port))
