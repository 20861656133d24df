"""The regular jobs are run by name: a serving process must know them without a worker's autodiscovery."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ASK = """
import django
django.setup()
import gateway.wiring
from celery import current_app
from gateway.schedule import GATEWAY_SCHEDULE
print(sorted(entry["task"] for entry in GATEWAY_SCHEDULE.values() if entry["task"] not in current_app.tasks))
"""


def test_a_serving_process_knows_every_job_of_its_ticker():
    """In a process of its own: here other tests have imported them."""
    run = subprocess.run(
        [sys.executable, "-c", ASK], cwd=ROOT, capture_output=True, text=True, timeout=50, check=True
    )
    assert run.stdout.strip() == "[]"
