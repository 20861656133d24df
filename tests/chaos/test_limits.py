"""What is limited is limited in all processes together."""

import asyncio
import re
import time
from collections import Counter

import aiohttp

from tests.chaos.books import booked_once
from tests.chaos.cluster import ADMIN, PASSWORD, PER_MINUTE, PLACES, SLOTS
from tests.chaos.load import Client, all_over, until

OBEYED_S = 1.0


def codes(sent):
    return Counter((one.status, one.code) for one in sent)


async def test_a_balance_for_three_lets_three_reach_the_upstream(cluster, servers, books):
    async with Client("poor", cluster.keys["poor"]) as client:
        sent = client.each(50, servers, lambda server: client.chat(server, "slow-headers-2@dollar"))
        await all_over(sent)
        assert codes(sent) == {(200, ""): 3, (402, "insufficient_quota"): 47}
        assert len(cluster.background.reached("poor-")) == 3
        await booked_once(books, "poor", [one.name for one in sent if one.status == 200], within_s=30)
        late = client.chat(servers[0], "slow-headers-2@dollar")
        await all_over([late])
        assert late.status == 402


async def test_requests_at_once(cluster, servers, books):
    async with Client("narrow", cluster.keys["narrow"]) as client:
        sent = client.each(40, servers, lambda server: client.chat(server, "slow-headers-3"))
        await all_over(sent)
        assert set(codes(sent)) == {(200, ""), (429, "rate_limit_exceeded")}
        assert cluster.background.most_at_once("narrow-") == PLACES
        await booked_once(books, "narrow", [one.name for one in sent if one.status == 200], within_s=30)


async def test_requests_a_minute(cluster, servers, books):
    async with Client("rated", cluster.keys["rated"]) as client:
        sent = client.each(40, servers, lambda server: client.chat(server, "echo-0"))
        await all_over(sent)
        assert codes(sent) == {(200, ""): PER_MINUTE, (429, "rate_limit_exceeded"): 40 - PER_MINUTE}
        assert len(cluster.background.reached("rated-")) == PER_MINUTE
        await booked_once(books, "rated", [one.name for one in sent if one.status == 200], within_s=30)


async def test_image_slots_and_those_of_a_killed_process(cluster, servers, books):
    async with Client("images", cluster.keys["images"]) as client:
        sent = client.each(20, servers, lambda server: client.image(server, "image-slow-3"))
        await all_over(sent)
        assert set(codes(sent)) == {(200, ""), (429, "image_concurrency_limit")}
        assert cluster.background.most_at_once("images-") == SLOTS

        await until(
            lambda: books.holders("images") == 0, "a slot outlives its request"
        )  # it goes with the outcome
        held = [client.image(servers[3], "image-slow-120") for _ in range(SLOTS)]
        names = {one.name for one in held}
        await until(lambda: names <= set(cluster.background.reached()), "no slot")
        refused = client.image(servers[0], "image-ok")
        await all_over([refused])
        assert (refused.status, refused.code) == (429, "image_concurrency_limit")

        killed_at = time.monotonic()
        await asyncio.to_thread(servers[3].kill)
        while True:
            one = client.image(servers[0], "image-ok")
            await all_over([one])
            if one.status == 200:
                break
            assert one.code == "image_concurrency_limit"
            assert time.monotonic() - killed_at < 45, "the slots of a killed process are not free"
            await asyncio.sleep(0.5)
        assert time.monotonic() - killed_at < 45
        done = [one.name for one in client.sent if one.status == 200]
        rows = await booked_once(books, "images", [*done, *names], within_s=60)
        assert {row.name for row in rows if row.state == "abandoned"} == names


async def flag_set(server, name, value):
    """In the console, as a person does it. The machine's clock when it was saved."""
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:

        async def form(path, fields):
            async with session.get(server.url + path) as answer:
                page = await answer.text()
            token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)[1]
            fields = {"csrfmiddlewaretoken": token, **fields}
            headers = {"Referer": server.url + path}
            async with session.post(
                server.url + path, data=fields, headers=headers, allow_redirects=False
            ) as answer:
                assert answer.status == 302, await answer.text()
                return time.monotonic()

        await form("/admin/login/", {"username": ADMIN, "password": PASSWORD})
        async with session.get(server.url + "/admin/channels_admin/runtimeflag/") as answer:
            page = await answer.text()
        path = re.search(rf'href="([^"]*/runtimeflag/\d+/change/)[^"]*"[^>]*>\s*{name}\s*<', page)[1]
        return await form(path, {"console_value": value})


async def test_a_flag_is_obeyed_by_all_processes_within_a_second(cluster, servers):
    async with Client("flags", cluster.keys["flags"]) as client:

        async def statuses():
            sent = client.each(4, servers, lambda server: client.chat(server, "cr"))  # has no price
            await all_over(sent)
            return {one.status for one in sent}

        assert await statuses() == {503}
        for value, status in (("true", 200), ("false", 503)):
            saved_at = await flag_set(servers[0], "ALLOW_UNPRICED_MODELS", value)
            while True:
                asked_at = time.monotonic()
                if await statuses() == {status}:
                    break
                assert asked_at - saved_at < OBEYED_S, f"{value} is not obeyed"
                await asyncio.sleep(0.05)
