"""A model that channels list, but none can serve now, is out and not unknown."""

import pytest

from channels_admin.services import channel_set_status, upstream_key_set_status
from channels_admin.statuses import RouteStatus


@pytest.mark.parametrize("what_is_out", ["channel", "key"])
async def test_503_when_all_that_list_the_model_are_out(gateway, what_is_out):
    if what_is_out == "channel":
        status = {"channel_id": gateway.channel.pk, "status": RouteStatus.DISABLED}
        await gateway.configure(channel_set_status, **status)
    else:
        key = await gateway.run(lambda: gateway.channel.upstream_keys.get().pk)
        await gateway.configure(upstream_key_set_status, upstream_key_id=key, status=RouteStatus.DISABLED)
    heard = await gateway.chat("echo-0")
    assert heard.status == 503
    assert heard.json()["error"]["code"] == "no_channel_available"
    assert heard.header("retry-after")
    assert not gateway.simulator.requests
