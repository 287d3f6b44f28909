"""What a worker counts for its operator, as Prometheus reads it: docs/metrics.md lists every name and label.

Imported only where a port for it was asked for. The ledger is the truth; these numbers begin at 0 with the process.
"""

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from workers.gateway import Outcome

MOST_VALUES = 50
MOST_CHARS = 100
OTHER = "other"
# From a cached token to a reasoning model that thinks for ten minutes.
_LATENCIES_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640)
_WAITS_S = (0.01, 0.05, 0.25, 1, 5, 10, 20)

# When each series began is a second series for every one, which nobody here asks for.
disable_created_metrics()


class LabelValues:
    """The values of one label: the first fifty, and `other` for the rest.

    Names of models come from experiment files, and whoever collects keeps a series for every value ever seen.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        if value not in self._known:
            if len(self._known) >= MOST_VALUES or len(value) > MOST_CHARS:
                return OTHER
            self._known.add(value)
        return value


class WorkerMetrics:
    """The counters of one worker process. Its methods cost microseconds and wait for nothing."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._models = LabelValues()
        self._errors = LabelValues()
        self._calls = self._counter("calls", "Calls with an outcome.", "model", "status", "error")
        self._tokens = self._counter("tokens", "Tokens as the gateway reports them.", "model", "direction")
        self._unmeasured = self._counter("calls_without_usage", "Answers without usage.", "model")
        self._cost_usd = self._counter("cost_usd", "US dollars by the experiments' prices.", "model")
        self._unpriced = self._counter("calls_without_cost", "Answers whose cost is not known.", "model")
        self._latency_s = self._histogram(
            "call_latency_seconds", "From sending to the outcome.", _LATENCIES_S, "model", "status"
        )
        self._first_byte_s = self._histogram(
            "call_first_byte_seconds", "From sending to the first byte.", _LATENCIES_S, "model"
        )
        self._limiter_wait_s = self._histogram(
            "limiter_wait_seconds", "Waits for the shared limits.", _WAITS_S, "model", "result"
        )

    def watch(
        self, *, in_flight: Callable[[], int], waiting: Callable[[], int], lease_left_s: Callable[[], float]
    ) -> None:
        """Have these asked whenever somebody collects."""
        self._gauge("calls_in_flight", "Calls that are being answered.", in_flight)
        self._gauge("calls_waiting", "Claimed jobs that are not sent yet.", waiting)
        self._gauge("worker_lease_seconds", "Until this worker counts as gone.", lease_left_s)

    def admitted(self, model: str, *, wait_s: float, granted: bool) -> None:
        """The limiter has answered a job."""
        result = "granted" if granted else "handed_back"
        self._limiter_wait_s.labels(self._models(model), result).observe(wait_s)

    def settled(self, model: str, outcome: Outcome, *, cost_usd: float | None) -> None:
        """A call has its outcome, and the outcome stands in the ledger."""
        model = self._models(model)
        usage = outcome.usage
        self._calls.labels(model, outcome.status, self._errors(outcome.error or "none")).inc()
        for direction, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            if tokens is not None:
                self._tokens.labels(model, direction).inc(tokens)
        if cost_usd is not None:
            self._cost_usd.labels(model).inc(cost_usd)
        if outcome.status == "ok":
            # Made at the first answer, so that a 0 is seen to be one.
            self._unmeasured.labels(model).inc(usage.total_tokens is None)
            self._unpriced.labels(model).inc(cost_usd is None)
        if outcome.latency_ms is not None:
            self._latency_s.labels(model, outcome.status).observe(outcome.latency_ms / 1000)
        if outcome.first_byte_ms is not None:
            self._first_byte_s.labels(model).observe(outcome.first_byte_ms / 1000)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"paretoken_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"paretoken_{name}", text, labels, buckets=buckets, registry=self.registry)

    def _gauge(self, name: str, text: str, ask: Callable[[], float]) -> None:
        Gauge(f"paretoken_{name}", text, registry=self.registry).set_function(ask)
