"""The command that runs the simulated gateway."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from paretoken.simulator.faults import KINDS
from paretoken.simulator.models import MODELS
from paretoken.simulator.server import serve
from paretoken.simulator.settings import BASE_PATH, HOST, SimulatorSettings

PORT = 8765

_EPILOG = "\n\n".join(
    (
        "Example: paretoken gateway simulate --tasks tasks.jsonl --seed 7 --rpm 600 --record served.jsonl",
        f"Models: {', '.join(MODELS)}.",
        "While it runs: GET /_simulator/record, DELETE /_simulator/record, GET /_simulator/stats, "
        "GET and POST /_simulator/faults.",
        "Kinds of faults: " + "; ".join(f"{name}: {kind.does}" for name, kind in KINDS.items()) + ".",
    )
)

app = typer.Typer(add_completion=False)


@app.command(epilog=_EPILOG)
def simulate(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = HOST,
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 takes any free one.", min=0, max=65535)
    ] = PORT,
    base_path: Annotated[str, typer.Option(help="Path of the gateway's base URL.")] = BASE_PATH,
    tasks: Annotated[
        Path | None,
        typer.Option(
            help="JSON Lines file of tasks (id, goal, difficulty, reference) it knows the answers of."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same answers.")] = 0,
    record: Annotated[
        Path | None, typer.Option(help="JSON Lines file to which every request and its usage is appended.")
    ] = None,
    latency_ms: Annotated[float, typer.Option(help="Median time to an answer.", min=0, max=3_600_000)] = 0.0,
    latency_sigma: Annotated[
        float, typer.Option(help="Sigma of the log-normal latency.", min=0, max=10)
    ] = 0.0,
    rpm: Annotated[
        int | None, typer.Option(help="Requests in any 60 seconds, per key and model.", min=0)
    ] = None,
    tpm: Annotated[
        int | None, typer.Option(help="Tokens in any 60 seconds, per key and model.", min=0)
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable with the key that requests must bring.")
    ] = None,
    faults: Annotated[
        str, typer.Option(help='JSON list of faults, such as [{"kind": "server_error", "count": 3}].')
    ] = "[]",
    until_stdin_closes: Annotated[
        bool, typer.Option("--until-stdin-closes", help="End when standard input closes.")
    ] = False,
) -> None:
    """Run a simulated OpenAI-compatible gateway, for trials without a key and without cost.

    It prints one JSON line with its base URL when it listens, and runs until it is stopped (Ctrl-C). All that
    it answers is invented and labelled: header `x-simulated: true`, system_fingerprint `simulated`.
    """
    settings = SimulatorSettings(
        host=host,
        port=port,
        base_path=base_path,
        tasks=tasks,
        seed=seed,
        record=record,
        latency_ms=latency_ms,
        latency_sigma=latency_sigma,
        rpm=rpm,
        tpm=tpm,
        api_key_env=api_key_env,
        faults=faults,
        until_stdin_closes=until_stdin_closes,
    )
    asyncio.run(serve(settings, typer.echo))
