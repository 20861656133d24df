"""How a 2xx answer is read, one module a shape; `READINGS` maps a plan's mode to its reading."""

from collections.abc import Mapping

from relay.upstream.attempt import Reading
from relay.upstream.modes import Mode
from relay.upstream.readings.drawn import read_drawn
from relay.upstream.readings.guarded import read_by_policy
from relay.upstream.readings.raw import read_raw
from relay.upstream.readings.whole import read_aggregated, read_exploded, read_whole

READINGS: Mapping[Mode, Reading] = {
    Mode.STREAM: read_by_policy,
    Mode.WHOLE: read_whole,
    Mode.AGGREGATE: read_aggregated,
    Mode.EXPLODE: read_exploded,
    Mode.RAW: read_raw,
    Mode.DRAWN: read_drawn,
}
