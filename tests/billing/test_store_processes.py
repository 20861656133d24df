"""Several processes on one Redis never sell more than there is."""

import json
import subprocess
import sys
import textwrap

import pytest

from billing.admission.redis import RedisOpenRecords
from tests.billing.asks import account

PROCESSES = 4
ADMISSIONS = 300
HOLD = 7
BALANCE = 1000
PLACES = 100

PROGRAM = textwrap.dedent("""
    import asyncio, json, sys
    from billing.admission.open_record import AdmissionAsk, Admitted, LeaseAsk
    from billing.admission.redis import RedisAdmissionPort

    url, prefix, name, count, hold, places = sys.argv[1:]

    async def one(port, number, free):
        money = AdmissionAsk(request_id=f"{name}:m{number}", account_id=7, hold_nano=int(hold))
        place = AdmissionAsk(request_id=f"{name}:p{number}", account_id=0, leases=(LeaseAsk("p", int(places)),))
        answers = await asyncio.gather(port.admit(name, money), port.admit(name, place))
        if isinstance(answers[0], Admitted) and free:
            port.withdraw(money.request_id)  # sold, given back, sold again
            return [False, isinstance(answers[1], Admitted)]
        return [isinstance(answer, Admitted) for answer in answers]

    async def main():
        port = RedisAdmissionPort(url, prefix)
        await port.beat(name)
        print("ready", flush=True)
        sys.stdin.readline()
        sold = [0, 0]
        for start in range(0, int(count), 25):
            answers = await asyncio.gather(*(one(port, start + n, n % 3 == 0 and start < 150) for n in range(25)))
            sold = [have + sum(column) for have, column in zip(sold, zip(*answers))]
        await port.aclose()
        print(json.dumps(sold), flush=True)

    asyncio.run(main())
""")


@pytest.mark.slow
def test_four_processes_never_oversell(redis_server, redis_prefix):
    records = RedisOpenRecords(redis_server, redis_prefix)
    records.accounts_put([account(7, BALANCE)])
    command = [sys.executable, "-c", PROGRAM, redis_server, redis_prefix]
    numbers = [str(number) for number in (ADMISSIONS, HOLD, PLACES)]
    workers = [
        subprocess.Popen(
            [*command, f"e{number}", *numbers], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for number in range(PROCESSES)
    ]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    sold = [json.loads(worker.communicate(timeout=60)[0]) for worker in workers]
    money, places = (sum(column) for column in zip(*sold, strict=True))
    assert places == PLACES
    assert len(records.holders("p")) == PLACES
    assert money == BALANCE // HOLD
    assert records.open_amounts() == {7: money * HOLD}
    assert records.recompute() == {}
    assert records.counts().running == money + places
    records.close()
