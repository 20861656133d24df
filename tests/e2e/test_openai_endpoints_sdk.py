"""The `openai` SDK on endpoints other than chat: responses, embeddings, images, sound, old completions."""

import json

import openai
import pytest

from channels_admin.services import channel_update
from tests.fakes.scripted_upstream import LAST_CHUNK, SSE_HEAD, ScriptedUpstream, Send, chunk
from tests.flows.gateway import QUESTION
from tests.relay.core.dialects.responses_samples import COMPLETED, CREATED, ERROR, HELLO, TEXT_STREAM, WORLD

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "strict": False,
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@pytest.fixture
async def sdk(gateway):
    async with gateway.sdk() as client:
        yield client


async def recorded(gateway, raw):
    return await gateway.record(raw.headers["x-request-id"])


class TestResponses:
    async def test_whole(self, gateway, sdk):
        raw = await sdk.responses.with_raw_response.create(model="echo", input=QUESTION, store=False)
        answer = raw.parse()
        assert (answer.output_text, answer.status) == (QUESTION, "completed")
        row = await recorded(gateway, raw)
        assert (row.dialect, row.family, row.end_reason) == ("openai_responses", "responses", "completed")

    async def test_streamed(self, sdk):
        stream = await sdk.responses.create(model="echo", input=QUESTION, stream=True)
        events = [event async for event in stream]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert "".join(one.delta for one in events if one.type == "response.output_text.delta") == QUESTION
        assert events[-1].type == "response.completed"
        assert events[-1].response.usage.output_tokens == 5

    async def test_the_sdks_own_accumulator(self, sdk):
        async with sdk.responses.stream(model="echo", input=QUESTION) as stream:
            async for _ in stream:
                pass
            final = await stream.get_final_response()
        assert final.output_text == QUESTION

    @pytest.mark.parametrize("model", ["tool-call", "parallel-tool-calls"])
    async def test_tools(self, sdk, model):
        async with sdk.responses.stream(model=model, input=QUESTION, tools=[WEATHER]) as stream:
            async for _ in stream:
                pass
            final = await stream.get_final_response()
        calls = [item for item in final.output if item.type == "function_call"]
        assert calls
        assert all(json.loads(call.arguments)["city"] and call.name == "get_weather" for call in calls)

    async def test_a_tools_loop(self, sdk):
        asked = await sdk.responses.create(model="tool-call", input=QUESTION, tools=[WEATHER])
        [call] = [item for item in asked.output if item.type == "function_call"]
        history = [
            {"role": "user", "content": QUESTION},
            call.model_dump(exclude_none=True),
            {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"},
        ]
        answer = await sdk.responses.create(model="tool-call", input=history, tools=[WEATHER])
        assert answer.output_text

    @pytest.mark.parametrize("policy", ["force_stream", "force_non_stream"])
    @pytest.mark.parametrize("stream", [True, False])
    async def test_stream_policies_change_nothing_that_is_seen(self, gateway, sdk, policy, stream):
        from tests.factories.channels import a_policy  # noqa: PLC0415  needs Django set up

        row = await gateway.run(a_policy, stream_policy=policy)
        await gateway.configure(channel_update, channel_id=gateway.channel.pk, policy=row)
        if not stream:
            answer = await sdk.responses.create(model="tool-call", input=QUESTION, tools=[WEATHER])
        else:
            async with sdk.responses.stream(model="tool-call", input=QUESTION, tools=[WEATHER]) as events:
                async for _ in events:
                    pass
                answer = await events.get_final_response()
        [call] = [item for item in answer.output if item.type == "function_call"]
        assert json.loads(call.arguments)["city"]
        [received] = gateway.simulator.requests
        assert received.json.get("stream", False) is (policy == "force_stream")

    @pytest.mark.parametrize("stream", [True, False])
    @pytest.mark.parametrize(
        ("model", "error"),
        [
            ("status-400", openai.BadRequestError),
            ("429-retry-after-7", openai.RateLimitError),
            ("status-500", openai.InternalServerError),
            ("html-200", openai.InternalServerError),
            ("empty-200", openai.InternalServerError),
            ("error-in-200", openai.InternalServerError),
        ],
    )
    async def test_errors_are_the_sdks_own(self, sdk, model, error, stream):
        with pytest.raises(error) as raised:
            await sdk.responses.create(model=model, input=QUESTION, stream=stream)
        assert raised.value.request_id

    @pytest.mark.parametrize("model", ["error-mid", "cut-after-3", "eof-after-3"])
    async def test_what_goes_wrong_in_mid_stream_is_an_exception(self, sdk, model):
        stream = await sdk.responses.create(model=model, input=QUESTION, stream=True)
        text = ""
        with pytest.raises(openai.APIError):
            async for event in stream:
                text += event.delta if event.type == "response.output_text.delta" else ""
        assert text.rstrip() == "one two three"

    @pytest.mark.parametrize(
        "fields", [{"background": True}, {"previous_response_id": "resp_1"}, {"conversation": "conv_1"}]
    )
    async def test_what_needs_a_memory_is_refused(self, gateway, sdk, fields):
        with pytest.raises(openai.BadRequestError) as raised:
            await sdk.responses.create(model="echo", input=QUESTION, **fields)
        assert raised.value.param == next(iter(fields))
        assert raised.value.code == "unsupported_parameter"
        assert gateway.simulator.requests == []

    async def test_counting_tokens_is_free(self, gateway, sdk):
        raw = await sdk.responses.input_tokens.with_raw_response.count(model="echo", input=QUESTION)
        assert raw.parse().input_tokens == 5
        row = await recorded(gateway, raw)
        assert (row.dialect, row.end_reason) == ("openai_responses_input_tokens", "completed")
        assert (row.usage.input, row.usage.output) == (0, 0)

    async def test_stored_responses_are_nobodys_yet(self, sdk):
        with pytest.raises(openai.NotFoundError):
            await sdk.responses.retrieve("resp_1")

    async def test_a_stream_without_event_names(self, gateway, sdk):
        """The SDK goes by the type in the data; so nothing is added."""
        frames = [frame.split(b"\n", 1)[1] for frame in TEXT_STREAM]
        script = [Send(SSE_HEAD), *(Send(chunk(frame)) for frame in frames), Send(LAST_CHUNK)]
        async with ScriptedUpstream(script) as upstream:
            await gateway.add_channel(upstream.url, priority=1)
            stream = await sdk.responses.create(model="m", input=QUESTION, stream=True)
            events = [event async for event in stream]
        assert events[-1].type == "response.completed"
        assert (
            "".join(one.delta for one in events if one.type == "response.output_text.delta") == "Hällo world"
        )

    async def test_ids_comments_and_empty_frames_that_break_the_sdk_directly(self, gateway, sdk):
        frames = [
            b"id: 1\n" + CREATED,
            b": hi\n\n",
            b"event: ping\n\n",
            HELLO,
            WORLD,
            COMPLETED,
            b"data: [DONE]\n\n",
        ]
        script = [Send(SSE_HEAD), *(Send(chunk(frame)) for frame in frames), Send(LAST_CHUNK)]
        async with ScriptedUpstream(script) as upstream:
            await gateway.add_channel(upstream.url, priority=1)
            stream = await sdk.responses.create(model="m", input=QUESTION, stream=True)
            kinds = [event.type async for event in stream]
        assert kinds == ["response.created", *["response.output_text.delta"] * 2, "response.completed"]

    async def test_an_error_event_at_the_start_is_a_status(self, gateway, sdk):
        async with ScriptedUpstream(
            [Send(SSE_HEAD), Send(chunk(CREATED + ERROR)), Send(LAST_CHUNK)]
        ) as upstream:
            await gateway.add_channel(upstream.url, priority=1)
            with pytest.raises(openai.APIStatusError, match="slow down"):
                await sdk.responses.create(model="m", input=QUESTION, stream=True)


class TestVectors:
    async def test_embeddings(self, gateway, sdk):
        raw = await sdk.embeddings.with_raw_response.create(model="text-embedding-x", input=["a", "b c"])
        assert len(raw.parse().data) == 2
        row = await recorded(gateway, raw)
        assert (row.dialect, row.end_reason) == ("openai_vectors", "completed")

    async def test_moderations_without_a_model(self, sdk):
        checked = await sdk.moderations.create(input="no violence please")
        assert checked.results[0].flagged

    async def test_an_error_inside_a_200(self, sdk):
        with pytest.raises(openai.InternalServerError):
            await sdk.embeddings.create(model="error-in-200", input="a")


class TestImages:
    async def test_generated(self, gateway, sdk):
        raw = await sdk.images.with_raw_response.generate(model="image-ok", prompt="a cat", n=2)
        assert len(raw.parse().data) == 2
        row = await recorded(gateway, raw)
        assert (row.dialect, row.family, row.end_reason) == ("openai_images", "images", "completed")

    async def test_streamed(self, sdk):
        stream = await sdk.images.generate(model="image-ok", prompt="a cat", stream=True, partial_images=2)
        kinds = [event.type async for event in stream]
        assert kinds == [*["image_generation.partial_image"] * 2, "image_generation.completed"]

    async def test_edited_under_another_name(self, gateway, sdk):
        await gateway.configure(
            channel_update,
            channel_id=gateway.channel.pk,
            models=["painter"],
            model_mapping={"painter": "image-ok"},
        )
        picture = ("katze-größe.png", b"\x89PNG\r\n--\xff\x00", "image/png")
        edited = await sdk.images.edit(model="painter", prompt="a hat", image=[picture, picture])
        assert edited.data[0].b64_json
        [received] = gateway.simulator.requests
        assert received.model == "image-ok"
        files = [(part.name, part.filename, part.body) for part in received.parts if part.filename]
        assert files == [("image[]", "katze-größe.png", picture[1])] * 2

    async def test_a_form_cannot_hide_its_model(self, gateway):
        from tests.factories.channels import an_api_key  # noqa: PLC0415  needs Django set up

        _, limited = await gateway.configure(an_api_key, gateway.tenant, allowed_models=["cheap"])
        async with gateway.sdk(api_key=limited) as client:
            with pytest.raises(openai.NotFoundError):
                await client.images.edit(model="dear", prompt="a hat", image=b"\x89PNG")
            await client.images.edit(model="cheap", prompt="a hat", image=b"\x89PNG")
        assert len(gateway.simulator.requests) == 1


class TestSound:
    async def test_speech(self, gateway, sdk):
        raw = await sdk.audio.speech.with_raw_response.create(model="tts", voice="alloy", input="größe")
        assert (raw.parse()).content[:256] == bytes(range(256))
        assert (await recorded(gateway, raw)).dialect == "openai_speech"

    @pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
    @pytest.mark.parametrize("method", ["transcriptions", "translations"])
    async def test_recordings(self, gateway, sdk, method):
        sound = ("größe.wav", bytes(range(256)), "audio/wav")
        raw = await getattr(sdk.audio, method).with_raw_response.create(model="whisper-1", file=sound)
        assert "256 bytes" in raw.parse().text
        assert (await recorded(gateway, raw)).model_asked == "whisper-1"

    async def test_a_streamed_transcript(self, sdk):
        stream = await sdk.audio.transcriptions.create(
            model="gpt-4o-transcribe", file=("a.wav", b"x"), stream=True
        )
        events = [event async for event in stream]
        assert events[-1].type == "transcript.text.done"
        assert "".join(event.delta for event in events[:-1]) == events[-1].text

    async def test_plain_text(self, sdk):
        text = await sdk.audio.transcriptions.create(
            model="whisper-1", file=("a.wav", b"x"), response_format="text"
        )
        assert "1 bytes" in str(text)


class TestCompletions:
    async def test_whole_and_streamed(self, gateway, sdk):
        raw = await sdk.completions.with_raw_response.create(model="echo", prompt=QUESTION)
        assert raw.parse().choices[0].text == QUESTION
        assert (await recorded(gateway, raw)).dialect == "openai_completions"
        stream = await sdk.completions.create(model="echo", prompt=QUESTION, stream=True)
        chunks = [chunk async for chunk in stream]
        assert "".join(one.choices[0].text for one in chunks) == QUESTION
        assert all(one.usage is None for one in chunks)
