"""What Prometheus reads at `/metrics`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The figures of one server."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "serving_requests", "Answered requests", ["entry", "status"], registry=registry
        )
        self.seconds = Histogram(
            "serving_request_seconds",
            "From arrival to the result, or to the last token",
            ["entry"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.rows = Histogram(
            "serving_call_rows", "Rows of a call", ["entry"], buckets=_ROWS, registry=registry
        )
        self.tokens = Counter("serving_tokens", "Generated tokens", registry=registry)
        self.waiting = Gauge("serving_waiting", "Requests that wait", registry=registry)
        self.ready = Gauge("serving_workers_ready", "Workers that can compute", registry=registry)
        self.ended = Counter(
            "serving_workers_ended", "Workers that ended and were replaced", registry=registry
        )
        self.retried = Counter(
            "serving_requests_retried",
            "Requests computed again because their worker ended",
            registry=registry,
        )
