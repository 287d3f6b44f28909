"""The simulated gateway as an HTTP server."""

import asyncio
import hmac
import json
import os
import signal
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

from aiohttp import web

from paretoken.errors import InputError
from paretoken.simulator import answering
from paretoken.simulator.delivery import Delivery, deliver, deliver_error, send
from paretoken.simulator.faults import Fault, FaultPlan, read_faults
from paretoken.simulator.limits import Limits, Window
from paretoken.simulator.models import MODELS, SimulatedModel, model_list
from paretoken.simulator.record import Record, clocks
from paretoken.simulator.settings import SimulatorSettings
from paretoken.simulator.tasks import TaskBook, read_tasks
from paretoken.simulator.wire import ApiError, ChatRequest, Refused, completion, dump, read_request
from workers.descriptors import allow_many

BACKLOG = 2048
LARGEST_BODY = 64 * 2**20
SHUTDOWN_S = 0.5


class Simulator:
    """The state of one simulated gateway and its handlers. Raises `InputError` for settings it can't use."""

    def __init__(self, settings: SimulatorSettings) -> None:
        self._settings = settings
        self._key = _required_key(settings.api_key_env)
        self._tasks = read_tasks(settings.tasks) if settings.tasks else TaskBook()
        self._faults = FaultPlan(read_faults(settings.faults), seed=settings.seed)
        self._windows: dict[tuple[str, str], Window] = {}
        self._answered: Counter[bytes] = Counter()
        # Answers repeat for a seed, ids never do: not even after a restart.
        start = uuid.uuid4().hex[:12]
        self._ids = (f"chatcmpl-sim-{start}-{number}" for number in count(1))
        self.record = Record(settings.record)

    def application(self) -> web.Application:
        """All routes: the gateway's under the base path, the simulator's own under `/_simulator`."""
        app = web.Application(client_max_size=LARGEST_BODY)
        base = "/" + self._settings.base_path.strip("/")
        base = base.rstrip("/")
        app.router.add_post(f"{base}/chat/completions", self._complete)
        app.router.add_get(f"{base}/models", self._models)
        app.router.add_get("/_simulator/record", self._show_record)
        app.router.add_delete("/_simulator/record", self._clear_record)
        app.router.add_get("/_simulator/stats", self._show_stats)
        app.router.add_get("/_simulator/faults", self._show_faults)
        app.router.add_post("/_simulator/faults", self._set_faults)
        app.router.add_route("*", "/{path:.*}", self._unknown_url)
        app.on_response_prepare.append(_label)
        return app

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        row: dict[str, Any] = {
            "response_id": None,
            "client_request_id": request.headers.get("X-Client-Request-Id"),
            "model": None,
            "input_tokens": None,
            "output_tokens": None,
            "total_tokens": None,
            "status": None,
            "fault": None,
            "served": False,
            "task_id": None,
            "right": None,
            "started": clocks(),
            "finished": None,
        }
        with self.record.in_flight():
            try:
                delivery = self._prepare(request, await request.read(), row)
            except Refused as refused:
                delivery = deliver_error(refused.error)
            row["status"] = delivery.status if delivery.pieces else None
            return await send(request, delivery, lambda: self._finish(row))

    def _finish(self, row: dict[str, Any]) -> None:
        row["finished"] = clocks()
        self.record.append(row)

    def _prepare(self, request: web.Request, body: bytes, row: dict[str, Any]) -> Delivery:
        """Decide the whole response, without a pause in between. Fills in `row`, raises `Refused`."""
        key = self._check_key(request)
        asked = read_request(body)
        row["model"] = asked.model
        model = _known_model(asked.model)
        same = answering.fingerprint(asked)
        before = self._answered[same]
        draw = f"{self._settings.seed} {same.hex()} {before if asked.seed is None else f'seed {asked.seed}'}"
        answered = answering.answer(
            asked, model=model, tasks=self._tasks, draw=draw, latency_sigma=self._settings.latency_sigma
        )
        spent = answering.spend(asked, answered, asked_before=before > 0)
        limit_headers = self._admit(key, model, spent.total_tokens)
        fault = self._faults.pick(asked)
        row["fault"] = fault.kind if fault else None
        delivery = self._deliver(asked, answered, spent, fault, row)
        if fault is None or fault.served:
            self._answered[same] += 1
        return _with_headers(delivery, limit_headers)

    def _deliver(
        self,
        asked: ChatRequest,
        answered: answering.Answered,
        spent: answering.Spent,
        fault: Fault | None,
        row: dict[str, Any],
    ) -> Delivery:
        content, finish_reason = answering.cut(answered, spent)
        body = completion(
            response_id=next(self._ids),
            created=int(time.time()),
            model=asked.model,
            content=content,
            tool_calls=answered.tool_calls if finish_reason == "tool_calls" else (),
            finish_reason=finish_reason,
            usage=spent.usage(),
        )
        if fault is None or fault.served:
            row |= {
                "served": True,
                "response_id": body["id"],
                "input_tokens": spent.input_tokens,
                "output_tokens": spent.output_tokens,
                "total_tokens": spent.total_tokens,
                "task_id": answered.task_id,
                "right": answered.right,
            }
        latency_s = self._settings.latency_ms / 1000 * answered.slowness
        return deliver(body, request=asked, fault=fault, latency_s=latency_s)

    def _check_key(self, request: web.Request) -> str:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self._key is not None and not hmac.compare_digest(given.encode(), self._key.encode()):
            message = "Incorrect API key provided." if given else "You didn't provide an API key."
            raise Refused(ApiError(status=401, code="invalid_api_key", message=message))
        return given

    def _admit(self, key: str, model: SimulatedModel, tokens: int) -> dict[str, str]:
        limits = Limits(requests=self._settings.rpm, tokens=self._settings.tpm)
        if limits == Limits():
            return {}
        window = self._windows.setdefault((key, model.name), Window(limits))
        return dict(window.admit(now=time.monotonic(), tokens=tokens))

    async def _models(self, request: web.Request) -> web.Response:
        try:
            self._check_key(request)
        except Refused as refused:
            return _error_response(refused.error)
        return _json_response(dump(model_list()))

    async def _unknown_url(self, request: web.Request) -> web.Response:
        message = f"Unknown request URL: {request.method} {request.path}. Check the base URL."
        return _error_response(ApiError(status=404, code="unknown_url", message=message))

    async def _show_record(self, request: web.Request) -> web.Response:
        return _json_response(self.record.as_json())

    async def _clear_record(self, request: web.Request) -> web.Response:
        self.record.clear()
        return web.Response(status=204)

    async def _show_stats(self, request: web.Request) -> web.Response:
        return _json_response(dump(self.record.stats()))

    async def _show_faults(self, request: web.Request) -> web.Response:
        return _json_response(dump(self._faults.listed()))

    async def _set_faults(self, request: web.Request) -> web.Response:
        try:
            self._faults.replace(read_faults(await request.read()))
        except InputError as error:
            return _error_response(ApiError(status=400, code="invalid_fault", message=str(error)))
        return web.Response(status=204)


def _required_key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise InputError(
            f"The environment variable {variable} has no key: set it, or leave --api-key-env out."
        )
    return key


def _known_model(name: str) -> SimulatedModel:
    if name not in MODELS:
        message = f"The model `{name}` does not exist. There are: {', '.join(MODELS)}."
        raise Refused(ApiError(status=404, code="model_not_found", message=message, param="model"))
    return MODELS[name]


def _with_headers(delivery: Delivery, headers: dict[str, str]) -> Delivery:
    """The limits' headers, where the delivery has none of the same name."""
    return replace(delivery, headers={**headers, **delivery.headers})


def _json_response(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


def _error_response(error: ApiError) -> web.Response:
    return _json_response(error.body(), error.status)


async def _label(request: web.BaseRequest, response: web.StreamResponse) -> None:
    response.headers["x-simulated"] = "true"


async def serve(settings: SimulatorSettings, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM, SIGINT or, where asked for, the end of standard input.

    `announce` is given one JSON line with `base_url` and `pid` as soon as connections are accepted.
    Raises `InputError` for settings that can't be used and for a port in use.
    """
    allow_many()
    simulator = Simulator(settings)
    # A client that goes away cancels its handler: a hanging request must not hang for ever.
    runner = web.AppRunner(
        simulator.application(), access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_S
    )
    ended = _end_of_service(settings)
    await runner.setup()
    try:
        site = web.TCPSite(runner, settings.host, settings.port, backlog=BACKLOG)
        try:
            await site.start()
        except OSError as error:
            raise InputError(
                f"Cannot listen on {settings.host}, port {settings.port} ({error.strerror}): "
                "choose another --port, or 0 for any free one."
            ) from error
        port = runner.addresses[0][1]
        base_url = f"http://{settings.host}:{port}/{settings.base_path.strip('/')}"
        announce(json.dumps({"base_url": base_url, "pid": os.getpid(), "simulated": True}))
        await ended.wait()
    finally:
        await runner.cleanup()
        simulator.record.close()


def _end_of_service(settings: SimulatorSettings) -> asyncio.Event:
    """Set by a signal or by the end of standard input."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    if sys.platform != "win32":
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ended.set)
    if settings.until_stdin_closes:
        threading.Thread(target=_read_to_end, args=(loop, ended), daemon=True).start()
    return ended


def _read_to_end(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    # Not through sys.stdin: its lock, held by this thread, would break the interpreter's shutdown.
    while os.read(0, 4096):
        pass
    loop.call_soon_threadsafe(ended.set)
