"""Random histories: both stores answer as a naive model does, and their sums are those of their records."""

import random

import pytest

from billing.admission import OpenState
from tests.billing.asks import account, ask, checkpoint, lease_asks, restore, settled
from tests.billing.store_model import Model

ACCOUNTS = (0, 7, 8, 9)
EPOCHS = ("e1", "e2")
NAMES = [f"r{number}" for number in range(12)]
LEASES = ("t", "c:1", "c:2")


class History:
    """One store and its model, told the same."""

    def __init__(self, lane, seed):
        self.lane, self.model = lane, Model()
        self.chance = random.Random(seed)
        self.seq = 0
        self.steps = [name for name in dir(self) if name.startswith("do_")]

    async def step(self) -> None:
        name = self.chance.choice(self.steps)
        told = await getattr(self, name)()
        assert told is None or told[0] == told[1], name
        await self.compare()

    async def compare(self) -> None:
        records, model = self.lane.records, self.model
        await self.lane.port.state("any")  # behind what was only queued
        assert records.open_amounts() == model.open()
        counts = records.counts()
        running = [one for one in model.entries if one.state != "settled"]
        assert counts.running == len(running)
        assert counts.waiting + counts.claimed == len(model.entries) - len(running)
        for name in NAMES:
            found, expected = await self.lane.port.state(name), model.find(name)
            assert (found is None) == (expected is None)
            if found is not None:
                assert found.payload == expected.payload
                assert (found.state is OpenState.SETTLED) == (expected.state == "settled")

    def pick(self, *values):
        return self.chance.choice(values)

    def holds(self):
        return self.chance.randrange(0, 60)

    def groups(self):
        return [[(name, self.pick(1, 2))] for name in self.chance.sample(LEASES, self.pick(1, 2))]

    async def do_admit(self):
        epoch = self.pick(*EPOCHS)
        wanted = ask(
            self.pick(*NAMES),
            account=self.pick(*ACCOUNTS),
            hold=self.holds(),
            leases=[("t", self.pick(2, 5))] if self.pick(0, 1) else [],
            candidates=self.groups() if self.pick(0, 1) else [],
            record=b"%d" % self.holds(),
        )
        return await self.lane.port.admit(epoch, wanted), self.model.admit(epoch, wanted)

    do_admit_again = do_admit_more = do_admit

    async def do_lease(self):
        call = self.pick(*NAMES), self.pick("1", "2"), lease_asks(*self.groups())
        return await self.lane.port.lease(*call), self.model.lease(*call)

    async def do_release_leases(self):
        call = self.pick(*NAMES), self.pick("", "*", "1", "2")
        self.lane.port.release_leases(*call)
        self.model.release_leases(*call)

    async def do_withdraw(self):
        name = self.pick(*NAMES)
        self.lane.port.withdraw(name)
        self.model.withdraw(name)

    async def do_checkpoint(self):
        epoch = self.pick(*EPOCHS)
        several = [
            checkpoint(name, 0, self.holds(), b"%d" % self.holds()) for name in self.chance.sample(NAMES, 3)
        ]
        return await self.lane.port.checkpoint(epoch, several), self.model.checkpoint(epoch, several)

    async def do_settle(self):
        several = [settled(name, self.pick(*ACCOUNTS), self.holds()) for name in self.chance.sample(NAMES, 2)]
        await self.lane.port.settle(several)
        self.model.settle(several)

    async def do_restore(self):
        epoch, attempts = self.pick(*EPOCHS), [("1", "c:1")]
        several = [
            restore(name, self.pick(*ACCOUNTS), self.holds(), leases=["t"], attempts=attempts)
            for name in self.chance.sample(NAMES, 2)
        ]
        await self.lane.port.restore(epoch, several)
        self.model.restore(epoch, several)

    async def do_put(self):
        self.seq += 1
        states = [account(self.pick(7, 8), self.chance.randrange(200), self.pick(self.seq, self.seq - 3))]
        await self.lane.port.accounts_put(states)
        self.model.put(states)

    async def do_beat(self):
        epoch = self.pick(*EPOCHS)
        return (await self.lane.port.beat(epoch)).was_lost, self.model.beat(epoch)

    async def do_beat_of_a_worker(self):
        self.lane.records.beat()
        self.model.note_beat()

    async def do_time(self):
        seconds = self.pick(1, 4, 9, 31, 70)
        self.lane.later(seconds)
        self.model.now += seconds

    async def do_acknowledge(self):
        states = [account(self.pick(7, 8), self.chance.randrange(200), self.seq)]
        names = self.chance.sample(NAMES, 4)
        self.lane.records.acknowledge(names, states)
        self.model.acknowledge(names, states)

    async def do_claim(self):
        """Claimed, and written or given back: whoever claims and dies does neither."""
        found = sorted(one.request_id for one in self.lane.records.claim(99))
        expected = sorted(one.name for one in self.model.claimable("settled", 99))
        if (after := self.pick("dies", "writes", "gives back")) == "gives back":
            self.lane.records.release(found)
            self.model.release(expected)
        elif after == "writes":
            self.lane.records.acknowledge(found)
            self.model.acknowledge(expected, [])
        return found, expected

    async def do_abandon(self):
        """Claimed and booked: whoever was settled or restored in between would stay."""
        found = sorted(name for name, _ in self.lane.records.claim_abandoned(99))
        expected = sorted(one.name for one in self.model.claim_abandoned(99))
        if self.pick(0, 1):
            self.lane.records.acknowledge_abandoned(found, [])
            self.model.acknowledge(expected, [], state="lost")
        return found, expected

    async def do_look_at_holders(self):
        lease = self.pick(*LEASES)
        found = self.lane.records.holders(lease)
        self.model.bury()
        return found, sorted({name for name, _ in self.model.members(lease)})

    async def do_recompute(self):
        return self.lane.records.recompute(), {}


@pytest.mark.parametrize("seed", range(6))
async def test_a_store_answers_as_the_model_does(lane, seed):
    history = History(lane, seed)
    for _ in range(120):
        await history.step()
    assert lane.records.recompute() == {}
