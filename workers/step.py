"""The next step of a trial: what its strategy makes of what came back, with tools and checks run on the way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from db.advance import DueTrial, FinishedTrial, JobResult, NextJob, RerunTrial, WrittenFile
from workers.checks import CheckContext, run_checks
from workers.checks import is_quick as check_is_quick
from workers.context import RunContext, TaskContext, stored_request
from workers.reservation import bound_cost_usd, prompt_bytes
from workers.strategies import Answer, Ended, ModelCall, Reply, Strategy, ToolStep
from workers.tools import Folder, run_tool

# A job that failed with one of these leaves its trial to a person: trying again by itself would not help.
_FOR_REVIEW = {"invalid_output", "truncated", "lost_worker"}


@dataclass(frozen=True, kw_only=True)
class Step:
    """What is committed for a trial: jobs of its next round, or its end, or its next try; and files it has written."""

    jobs: Sequence[NextJob] = ()
    finished: FinishedTrial | None = None
    rerun: RerunTrial | None = None
    files: Sequence[WrittenFile] = ()


def next_step(
    trial: DueTrial,
    run: RunContext,
    task: TaskContext,
    *,
    results: Sequence[JobResult],
    written: Mapping[str, bytes],
) -> Step:
    """Decide the step. It may take seconds of computing, and touches neither database nor network."""
    if failed := next((result for result in results if result.state == "failed"), None):
        return Step(finished=_failed(trial, failed))
    folder = Folder(task_files=task.files, written=written)
    following = _following(run.strategies[trial.strategy], task, results, folder)
    if isinstance(following, Answer):
        return _answered(trial, run, task, following, folder)
    if isinstance(following, Ended):
        return Step(finished=_ended(trial, task, following))
    files = [
        WrittenFile(trial=trial.trial, version=trial.version, name=name, content=folder.written[name])
        for name in sorted(folder.changed)
    ]
    return Step(jobs=[_next_job(trial, run, call) for call in following], files=files)


def is_quick(trial: DueTrial, run: RunContext, task: TaskContext) -> bool:
    """Whether its step computes a moment at the most. Never raises."""
    strategy = run.strategies.get(trial.strategy)
    return strategy is not None and strategy.quick and all(check_is_quick(spec) for spec in task.check_specs)


def _following(
    strategy: Strategy, task: TaskContext, results: Sequence[JobResult], folder: Folder
) -> Sequence[ModelCall] | Answer | Ended:
    replies = [_reply(result) for result in results]
    following = strategy.proceed(task.view, replies)
    if not isinstance(following, ToolStep):
        return following
    given = [
        run_tool(call, folder, allowed=following.allowed, most_chars=following.most_chars)
        for call in following.calls
    ]
    return strategy.after_tools(task.view, replies, given)


def _reply(result: JobResult) -> Reply:
    return Reply(
        round=result.round,
        sample=result.sample,
        content=result.content or "",
        tool_calls=result.tool_calls or (),
        latency_ms=result.latency_ms,
        total_tokens=result.total_tokens,
        messages=result.messages or (),
    )


def _failed(trial: DueTrial, result: JobResult) -> FinishedTrial:
    place = f"round {result.round}, sample {result.sample}"
    return FinishedTrial(
        trial=trial.trial,
        version=trial.version,
        state="review" if result.error in _FOR_REVIEW else "failed",
        reason=f"{result.error} in {place}: {result.message or 'no message'}",
    )


def _ended(trial: DueTrial, task: TaskContext, ended: Ended) -> FinishedTrial:
    """No answer is a wrong answer, where right ones can be told."""
    return FinishedTrial(
        trial=trial.trial,
        version=trial.version,
        state="failed",
        reason=f"{ended.reason}: {ended.message}",
        confirmed_success=False if task.checks else None,
    )


def _answered(trial: DueTrial, run: RunContext, task: TaskContext, answer: Answer, folder: Folder) -> Step:
    context = CheckContext(files=task.files, written=folder.written, allow_commands=run.allow_commands)
    success, found = run_checks(task.checks, answer.text, context)
    checks = [{"try": trial.try_, **check} for check in found]
    again = success is False and run.reruns_on_failed_check > 0
    if again and trial.repetition is None:
        return Step(rerun=RerunTrial(trial=trial.trial, version=trial.version, checks=checks))
    finished = FinishedTrial(
        trial=trial.trial,
        version=trial.version,
        state="review" if again else "ok",
        reason=f"failed_check: {_first_failed(found)}" if again else None,
        answer=answer.text,
        detail=answer.detail,
        confirmed_success=success,
        checks=checks,
    )
    return Step(finished=finished)


def _first_failed(found: Sequence[Mapping[str, object]]) -> str:
    return next(f"{check['kind']}: {check['message']}" for check in found if not check["passed"])


def _next_job(trial: DueTrial, run: RunContext, call: ModelCall) -> NextJob:
    prompt = prompt_bytes(call.messages, call.extra)
    return NextJob(
        trial=trial.trial,
        version=trial.version,
        round=call.round,
        sample=call.sample,
        model=call.model,
        request=stored_request(call),
        reserve_tokens=prompt + call.max_tokens,
        reserve_cost_usd=bound_cost_usd(
            prompt_tokens=prompt, max_tokens=call.max_tokens, price=run.prices.get(call.model)
        ),
    )
