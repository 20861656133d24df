"""The pure parts of the benchmark harness: maths, goals, table, configuration. No processes, no sockets."""

from dataclasses import replace
from typing import Any

import pytest
import yaml

from tests.bench.bench import choose_loads, read_options
from tests.bench.clients import QuietClient
from tests.bench.figures import (
    GOALS,
    Figures,
    Spread,
    cpu_ratios,
    ratios,
    render_table,
    verdicts,
)
from tests.bench.loads import LOADS, Sample, sample_of
from tests.bench.open_streams import OpenMemory
from tests.bench.processes import HarnessError
from tests.bench.profiling import self_times
from tests.bench.report import billing_lines, main_table, memory_lines, remarks
from tests.bench.scenarios import expected_comments
from tests.bench.stack import gateway_config, parse_pairs
from tests.bench.stores import with_database

BY_NAME = {load.name: load for load in LOADS}
SAMPLE = Sample(
    requests=1000,
    requests_per_s=500.0,
    events_per_s=11_000.0,
    p50_ms=2.0,
    p99_ms=4.0,
    first_event_p50_ms=1.0,
    first_event_p99_ms=3.0,
    transit_p50_ms=0.5,
    transit_p99_ms=1.5,
    cpu=0.5,
    rss_kb=100_000,
    helpers_cpu=0.2,
    generator_cpu=0.2,
    foreign_cpu=0.01,
    failed=0,
    unfinished=0,
    first_error="",
)


MEMORY = {"raw": OpenMemory(90_000, 20.0), "gateway": OpenMemory(80_000, 40.0)}


def figures_of(gateway: Sample, *, loads: tuple[str, ...] = tuple(BY_NAME)) -> Figures:
    """Direct and raw give SAMPLE under every load, the gateway gives `gateway`."""
    samples = {
        name: {load: [sample] for load in loads}
        for name, sample in (("direct", SAMPLE), ("raw", SAMPLE), ("gateway", gateway))
    }
    return Figures(samples, {load: BY_NAME[load] for load in loads}, MEMORY)


def failed_titles(figures: Figures) -> list[str]:
    return [verdict.title for verdict in verdicts(figures, "gateway") if verdict.passed is False]


class TestRatios:
    def test_each_round_is_compared_with_its_own_reference(self) -> None:
        # A slow second round halves both: per round the ratio stays 0.5, over medians it would not.
        raw = [replace(SAMPLE, requests_per_s=value) for value in (1000.0, 500.0, 1200.0)]
        mine = [replace(SAMPLE, requests_per_s=value) for value in (500.0, 250.0, 300.0)]
        found = ratios({"raw": {"ns32": raw}, "gateway": {"ns32": mine}}, "gateway", BY_NAME["ns32"])
        assert found == Spread(median=0.5, low=0.25, high=0.5)

    def test_streams_are_compared_in_events(self) -> None:
        mine = replace(SAMPLE, events_per_s=5500.0, requests_per_s=500.0)
        found = ratios({"raw": {"st32": [SAMPLE]}, "gateway": {"st32": [mine]}}, "gateway", BY_NAME["st32"])
        assert found == Spread(0.5, 0.5, 0.5)

    def test_cpu_ratio_compares_cost_not_speed(self) -> None:
        # A neighbour took half of the core: half the requests for half the time is the same cost.
        disturbed = replace(SAMPLE, requests_per_s=250.0, cpu=0.25)
        dear = replace(SAMPLE, requests_per_s=250.0, cpu=0.5)
        raw = {"ns32": [SAMPLE, SAMPLE]}
        found = cpu_ratios({"raw": raw, "gateway": {"ns32": [disturbed, dear]}}, "gateway", BY_NAME["ns32"])
        assert found == Spread(median=0.75, low=0.5, high=1.0)

    def test_a_reference_that_did_nothing_gives_no_ratio(self) -> None:
        dead = replace(SAMPLE, requests_per_s=0.0)
        assert (
            ratios({"raw": {"ns1": [dead]}, "gateway": {"ns1": [SAMPLE]}}, "gateway", BY_NAME["ns1"]) is None
        )


class TestGoals:
    def test_a_gateway_like_the_reference_passes_all(self) -> None:
        judged = verdicts(figures_of(SAMPLE), "gateway")
        assert [verdict.passed for verdict in judged] == [True] * len(GOALS)

    @pytest.mark.parametrize(
        ("change", "missed"),
        [
            ({"requests_per_s": 190.0}, ["ns32 requests/s, ratio to raw"]),
            ({"p50_ms": 3.6}, ["ns1 added p50, ms"]),
            ({"events_per_s": 6000.0}, ["st32 events/s, ratio to raw", "p500 delivered, share"]),
            ({"events_per_s": 10_000.0}, ["p500 delivered, share"]),
            ({"first_event_p50_ms": 5.1}, ["p500 first event p50, ms"]),
            ({"cpu": 0.97}, ["p500 CPU, cores"]),
            ({"failed": 1}, ["failed, cut or unfinished answers"]),
            ({"unfinished": 1}, ["failed, cut or unfinished answers"]),
        ],
    )
    def test_each_goal_can_be_missed(self, change: dict[str, Any], missed: list[str]) -> None:
        assert failed_titles(figures_of(replace(SAMPLE, **change))) == missed

    def test_memory_can_be_missed(self) -> None:
        figures = replace(figures_of(SAMPLE), memory={"gateway": OpenMemory(80_000, 45.1)})
        assert failed_titles(figures) == ["memory per open stream, KB"]

    def test_a_run_without_any_answer_is_a_failure(self) -> None:
        idle = replace(SAMPLE, requests=0)
        assert "failed, cut or unfinished answers" in failed_titles(figures_of(idle))

    def test_what_was_not_measured_is_neither_passed_nor_missed(self) -> None:
        judged = verdicts(figures_of(SAMPLE, loads=("ns1",)), "gateway")
        assert [v.title for v in judged if v.passed is not None] == [
            "ns1 added p50, ms",
            "memory per open stream, KB",
            "failed, cut or unfinished answers",
        ]


class TestReport:
    def test_columns_are_aligned(self) -> None:
        table = render_table(
            ("load", "target", "req/s"), [("ns1", "gateway", "1,000"), ("ns128", "raw", "9")]
        )
        assert table.splitlines() == [
            "load   target   req/s",
            "-----  -------  -----",
            "ns1    gateway  1,000",
            "ns128  raw          9",
        ]

    def test_shows_ratio_and_added_latency_of_the_gateway(self) -> None:
        figures = figures_of(replace(SAMPLE, requests_per_s=250.0, p50_ms=3.5), loads=("ns32",))
        lines = main_table(figures).splitlines()
        assert len(lines) == 2 + 3
        assert "0.50 (0.50–0.50)" in lines[-1]
        assert "1.50" in lines[-1]
        assert "(" not in lines[-2]

    def test_memory_is_told(self) -> None:
        assert "gateway: 40.0 KB per open stream over 78 MB" in memory_lines(figures_of(SAMPLE))

    def test_failures_and_a_full_load_core_are_told(self) -> None:
        bad = replace(SAMPLE, failed=2, unfinished=1, first_error="HTTP/1.1 503", helpers_cpu=0.8)
        text = "\n".join(remarks(figures_of(bad, loads=("ns1",))))
        assert "gateway ns1: 2 failed or cut, 1 unfinished; first: HTTP/1.1 503" in text
        assert "gateway ns1: the load core was full (100%)" in text
        assert "raw ns1" not in text


class TestConfiguration:
    def test_gateway_yaml(self) -> None:
        parsed = yaml.safe_load(gateway_config("http://127.0.0.1:9000", "sk-bench-1"))
        assert parsed == {
            "channels": [
                {
                    "name": "main",
                    "kind": "openai",
                    "base_url": "http://127.0.0.1:9000",
                    "models": ["*"],
                    "groups": ["default"],
                    "keys": ["sk-upstream"],
                }
            ],
            "prices": [{"model": "*", "input": 1.0, "output": 2.0}],
            "tenants": [
                {
                    "name": "bench",
                    "group": "default",
                    "balance_usd": 1_000_000,
                    "api_keys": [{"name": "bench", "key": "sk-bench-1"}],
                }
            ],
        }

    def test_database_is_named_on_the_same_server(self) -> None:
        assert with_database("postgres://u:p@db:5433/postgres?sslmode=require", "fresh") == (
            "postgres://u:p@db:5433/fresh?sslmode=require"
        )

    def test_loads_keep_their_order_and_paced_ones_their_length(self) -> None:
        chosen = choose_loads("st32,p500", 1.0)
        assert list(chosen) == ["p500", "st32"]
        assert (chosen["p500"].seconds, chosen["st32"].seconds) == (4.0, 1.0)

    def test_unknown_load_is_refused(self) -> None:
        with pytest.raises(HarnessError, match="ns33"):
            choose_loads("ns33", 1.0)

    @pytest.mark.parametrize("pair", ["name", "=url", "name="])
    def test_half_a_pair_is_refused(self, pair: str) -> None:
        with pytest.raises(HarnessError, match="NAME=VALUE"):
            parse_pairs([pair], "--target")

    def test_quick_is_one_round(self) -> None:
        assert (read_options(["--quick"]).rounds, read_options([]).rounds) == (1, 3)


class TestReadings:
    def test_generator_answer_becomes_a_sample(self) -> None:
        names = [
            "lat_p50",
            "lat_p99",
            "ttft_p50",
            "ttft_p99",
            "tr_p50",
            "tr_p99",
            "mockcpu",
            "lgcpu",
            "unfinished",
            "badstatus",
            "incomplete",
        ]
        answer = dict.fromkeys(names, 0) | {"req": 10, "rps": 5.0, "evps": 0, "cpu": 0.25, "rss_mb": 2.0}
        sample = sample_of(answer | {"err": 3, "incomplete": 2, "firsterr": "x"})
        assert (sample.rss_kb, sample.failed, sample.cpu_ms_per_request) == (2048, 3, 50.0)
        assert sample.cpu_us_per_event == 0.0
        assert not sample.whole

    def test_self_time_belongs_to_the_innermost_frame_and_waiting_threads_do_not_count(self) -> None:
        raw = (
            "main (a.py);loop (b.py);read (c.py) 5\n"
            "main (a.py);loop (b.py) 2\n"
            "Thread._bootstrap (threading.py);run (d.py);read (c.py) 3\n"
            "Thread._bootstrap (threading.py);_worker (concurrent/futures/thread.py:81) 90\n"
        )
        leaves, roots = self_times(raw)
        assert leaves == [("read (c.py)", 0.8), ("loop (b.py)", 0.2)]
        assert roots == [("main (a.py)", 0.7), ("Thread._bootstrap (threading.py)", 0.3)]

    @pytest.mark.parametrize(
        ("seconds", "expected"),
        # events at 0, 40, 80; keepalives at 15, 30, 55, 70
        [(10, 0), (20, 1), (50, 2), (57, 3), (80, 4)],
    )
    def test_keepalives_due(self, seconds: float, expected: int) -> None:
        assert expected_comments(seconds, 40, 15, 1) == expected

    def test_client_tells_events_from_comments_over_cut_chunks(self) -> None:
        client = QuietClient(b"")
        answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        for chunk in (b"data: {}\n", b"\n: keep", b"alive\n\ndata: [DONE]\n\n"):
            answer += b"%x\r\n%s\r\n" % (len(chunk), chunk)
        client.data_received(answer)
        assert (client.status, len(client.events), len(client.comments)) == (200, 2, 1)
        assert len(client.comment_gaps()) == 1


def test_what_billing_adds_is_told_where_a_gateway_without_it_ran():
    assert billing_lines(figures_of(SAMPLE, loads=("ns1",))) == []
    samples = {
        "gateway": {"ns1": [replace(SAMPLE, p50_ms=2.5)]},
        "unbilled": {"ns1": [replace(SAMPLE, requests_per_s=1000.0)]},
    }
    assert billing_lines(Figures(samples, {"ns1": BY_NAME["ns1"]}, {})) == [
        "ns1: p50 2.00 → 2.50 ms, CPU a request 0.500 → 1.000 ms"
    ]
