"""Multipart forms through the whole gateway: the model in them is obeyed, renamed and cannot be hidden."""

import pytest

from channels_admin.services import channel_update

PICTURE = b"\x89PNG\r\n--not-the-boundary\r\n" + bytes(range(256))
KIND = ("Content-Type", "multipart/form-data; boundary=b7")


def form(*models: bytes, end: bytes = b"--b7--\r\n") -> bytes:
    image = 'Content-Disposition: form-data; name="image[]"; filename="größe.png"\r\nContent-Type: image/png'.encode()
    head = b'Content-Disposition: form-data; name="model"'
    parts = [(image, PICTURE), *((head, model) for model in models), (image, PICTURE)]
    return b"".join(b"--b7\r\n" + head + b"\r\n\r\n" + value + b"\r\n" for head, value in parts) + end


@pytest.mark.parametrize("path", ["/v1/images/edits", "/v1/audio/transcriptions"])
async def test_a_form_passes_byte_for_byte(gateway, path):
    heard = await gateway.ask("POST", path, KIND, body=form(b"image-ok"))
    assert heard.status == 200
    [received] = gateway.simulator.requests
    assert (received.body, received.content_type) == (form(b"image-ok"), KIND[1])
    row = await gateway.record(heard.request_id)
    assert (row.model_asked, row.end_reason) == ("image-ok", "completed")


async def test_a_mapped_model_changes_its_own_part_alone(gateway):
    mapping = {"painter": "image-ok"}
    await gateway.configure(
        channel_update, channel_id=gateway.channel.pk, models=["painter"], model_mapping=mapping
    )
    heard = await gateway.ask("POST", "/v1/images/edits", KIND, body=form(b"painter"))
    assert heard.status == 200
    [received] = gateway.simulator.requests
    assert received.body == form(b"image-ok")
    assert received.header("content-length") == str(len(form(b"image-ok")))


@pytest.mark.parametrize(
    ("kind", "body", "what"),
    [
        (KIND, form(b"cheap", b"dear"), "twice"),
        (KIND, form(b"image-ok", end=b""), "boundary"),
        (KIND, form(b"\xff"), "UTF-8"),
        (("Content-Type", "multipart/form-data"), form(b"image-ok"), "boundary"),
        (("Content-Type", "multipart/form-data; boundary=other"), form(b"image-ok"), "framing"),
        (KIND, b'{"model":"image-ok"}', "framing"),
    ],
)
async def test_a_form_that_could_be_read_in_two_ways_goes_no_further(gateway, kind, body, what):
    heard = await gateway.ask("POST", "/v1/images/edits", kind, body=body)
    assert heard.status == 400
    assert what in heard.error["message"]
    assert heard.error["code"] == "invalid_form"
    assert gateway.simulator.requests == []


async def test_a_limited_key_may_use_its_models_in_forms(gateway):
    from tests.factories.channels import an_api_key  # noqa: PLC0415  needs Django set up

    _, key = await gateway.configure(an_api_key, gateway.tenant, allowed_models=["cheap"])
    tries = [
        await gateway.ask("POST", "/v1/images/edits", KIND, body=form(b"cheap"), key=key),
        await gateway.ask("POST", "/v1/images/edits", KIND, body=form(b"dear"), key=key),
        await gateway.ask("POST", "/v1/images/edits", KIND, body=form(), key=key),
    ]
    assert [heard.status for heard in tries] == [200, 404, 403]
    assert [received.model for received in gateway.simulator.requests] == ["cheap"]
