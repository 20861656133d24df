"""A simulated upstream: OpenAI, Azure, Anthropic and Gemini shapes on loopback, faults chosen by model name.

The demo channel points at it, operators rehearse failures with it, tests use the same one. It imports no
Django and nothing of the gateway outside this package; only the management command does.

    server      starts, stops, remembers requests
    endpoints   path → shape; models, stored responses
    registry    name pattern → behaviour, one-line meaning
    behaviours/ what happens, one subject a file
    shapes/     how each dialect looks on the wire
    exchange    the I/O that behaviours are written with
    received    one request as it came
    answer      question and answer before they have a shape
"""

from gateway.simulator.registry import Behaviour, all_behaviours
from gateway.simulator.server import (
    DEFAULT_HOST,
    DEFAULT_PORT,
    Simulator,
    run_simulator,
    running_simulator,
    serve_simulator,
)

__all__ = [
    "DEFAULT_HOST",
    "DEFAULT_PORT",
    "Behaviour",
    "Simulator",
    "all_behaviours",
    "run_simulator",
    "running_simulator",
    "serve_simulator",
]
