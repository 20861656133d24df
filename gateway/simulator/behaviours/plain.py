"""Good answers."""

from gateway.simulator.exchange import Exchange
from gateway.simulator.registry import behaviour


@behaviour("echo", "Says the user's last message again, word by word, about 30 ms a word.")
async def echo(exchange: Exchange) -> None:
    """The default: any name that is not in the table does this."""
    await exchange.respond()


@behaviour("echo-{ms}", "The same with so many milliseconds a word; 0 is back to back.", example="echo-0")
async def echo_paced(exchange: Exchange, pace_ms: float) -> None:
    """Echo at a pace of its own."""
    await exchange.respond(pace_s=pace_ms / 1000)


@behaviour("image-ok", "Makes small PNG images at once (base64; partial images if streamed).")
async def image_ok(exchange: Exchange) -> None:
    """A name to configure image channels with; the endpoint makes the image."""
    await exchange.respond(pace_s=0)
