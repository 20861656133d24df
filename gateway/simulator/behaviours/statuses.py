"""Refusals: an HTTP status other than 200, before any answer."""

from gateway.simulator.exchange import Exchange
from gateway.simulator.faults import Fault, fault_for
from gateway.simulator.registry import behaviour
from gateway.simulator.shapes.base import Payload


@behaviour(
    "status-{code}", "Answers with any status from 200 to 599 and an error body.", example="status-500"
)
async def status(exchange: Exchange, code: float) -> None:
    """The plain refusal."""
    number = min(max(int(code), 200), 599)
    await exchange.send_error(fault_for(number))


@behaviour("429-retry-after-{s}", "429 with a Retry-After header.", example="429-retry-after-7")
async def retry_after(exchange: Exchange, seconds: float) -> None:
    """Too many requests, and when to come again."""
    await exchange.send_error(fault_for(429), headers={"Retry-After": f"{seconds:g}"})


@behaviour("quota-exhausted", "429 with OpenAI's insufficient_quota: no retry helps.")
async def quota_exhausted(exchange: Exchange) -> None:
    """The account is empty."""
    message = "You exceeded your current quota, please check your plan and billing details."
    await exchange.send_error(Fault(429, message, "insufficient_quota", "insufficient_quota"))


@behaviour("refuse-keys", "401: the credential is wrong.")
async def refuse_keys(exchange: Exchange) -> None:
    """A revoked upstream key."""
    await exchange.send_error(fault_for(401, "Incorrect API key provided."))


@behaviour("model-not-found", "404 with OpenAI's model_not_found.")
async def model_not_found(exchange: Exchange) -> None:
    """A channel that claims a model its upstream has not."""
    message = "The model does not exist or you do not have access to it."
    await exchange.send_error(fault_for(404, message, code="model_not_found"))


@behaviour("context-length", "400 with OpenAI's context_length_exceeded.")
async def context_length(exchange: Exchange) -> None:
    """The request's own fault."""
    message = "This model's maximum context length is 8 tokens. Please reduce the length of the messages."
    fault = fault_for(400, message, code="context_length_exceeded", param="messages")
    await exchange.send_error(fault)


@behaviour("image-blocked", "400 with OpenAI's moderation_blocked.")
async def image_blocked(exchange: Exchange) -> None:
    """The image was refused for what it would show."""
    message = "Your request was rejected by the safety system."
    await exchange.send_error(Fault(400, message, "image_generation_user_error", "moderation_blocked"))


@behaviour(
    "flaky-{n}", "503 for the first n requests for this very name, then it answers.", example="flaky-2"
)
async def flaky(exchange: Exchange, failures: float) -> None:
    """Names with different labels (`flaky-2@a`, `flaky-2@b`) count apart."""
    exchange.memory.tries[exchange.ask.model] += 1
    if exchange.memory.tries[exchange.ask.model] <= failures:
        await exchange.send_error(fault_for(503, "The simulator is flaky, as the model name asks."))
        return
    await exchange.respond()


@behaviour("redirect-{code}", "A redirect to another path here.", example="redirect-302")
async def redirect(exchange: Exchange, code: float) -> None:
    """Must not be followed: the credential would go along."""
    number = min(max(int(code), 300), 399)
    await exchange.send_payload(Payload(), status=number, headers={"Location": "/v1/redirected"})
