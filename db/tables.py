"""The tables. Migrations make them; a test holds both together.

Postgres is the truth about a run; the broker only carries hints. `unknown` numbers are NULL, never 0.
All times are the database's own clock.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

RUN_STATES = ("running", "paused", "finished", "cancelled")
TRIAL_STATES = ("pending", "running", "ok", "failed", "over_budget", "review", "cancelled")
JOB_STATES = ("pending", "queued", "running", "ok", "failed", "cancelled")
JUDGING_STATES = ("pending", "ok", "failed", "cancelled")
CALL_STATES = ("started", "ok", "error", "unknown")

metadata = MetaData(
    naming_convention={
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ck": "%(table_name)s_%(constraint_name)s_check",
        "fk": "%(table_name)s_%(column_0_name)s_fkey",
        "pk": "%(table_name)s_pkey",
    }
)


def _one_of(column: str, values: tuple[str, ...]) -> CheckConstraint:
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=column)


def _time(name: str, *, nullable: bool = True, default: str | None = None) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=nullable, server_default=default and text(default))


def _count(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default="0")


run = Table(
    "run",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("run_id", Text, nullable=False, unique=True),
    Column("source_platform", Text, nullable=False),
    Column("base_url", Text, comment="NULL until a simulated gateway has been started for it"),
    Column("state", Text, nullable=False, server_default="running"),
    Column("reason", Text, comment="why it is paused, and what to do"),
    Column("experiment", JSONB, nullable=False, comment="the whole file, normalised; holds no key"),
    Column("experiment_hash", Text, nullable=False),
    Column("prompts_hash", Text, nullable=False),
    Column("key_fingerprint", Text, nullable=False),
    Column("simulated", Boolean, nullable=False),
    Column("judgings", JSONB, comment="per judge what was planned and its bound; NULL until it was"),
    _time("created_at", nullable=False, default="now()"),
    _time("finished_at"),
    _one_of("state", RUN_STATES),
)

lane = Table(
    "lane",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("endpoint", Text, nullable=False),
    Column("key_fingerprint", Text, nullable=False),
    Column("model", Text, nullable=False),
    _time("hold_until"),
    Column("hold_reason", Text),
    UniqueConstraint("endpoint", "key_fingerprint", "model"),
    comment="what shares one rate limit: a gateway, a key and a model",
)

run_lane = Table(
    "run_lane",
    metadata,
    Column("run", ForeignKey("run.id"), primary_key=True),
    Column("lane", ForeignKey("lane.id"), primary_key=True),
    _time("proven_at"),
    comment="until the first call of a run on a lane was answered (proven_at), it goes alone",
)

file = Table(
    "file",
    metadata,
    Column("sha256", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

task = Table(
    "task",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("run", ForeignKey("run.id"), nullable=False),
    Column("task_id", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("category", Text, nullable=False),
    Column("difficulty", Text, nullable=False),
    Column("weight", Double, nullable=False),
    Column("goal", Text, nullable=False),
    Column("files", JSONB, nullable=False, comment='{"name": "sha256", …}'),
    Column("reference", JSONB),
    Column("checks", JSONB, nullable=False),
    Column("prompt_bytes", Integer, nullable=False, comment="goal and files in UTF-8: no fewer than tokens"),
    UniqueConstraint("run", "task_id"),
)

strategy = Table(
    "strategy",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("run", ForeignKey("run.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("family", Text, nullable=False),
    Column("tier", Integer, nullable=False),
    Column("params", JSONB, nullable=False),
    UniqueConstraint("run", "name"),
)

trial = Table(
    "trial",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("run", ForeignKey("run.id"), nullable=False),
    Column("task", ForeignKey("task.id"), nullable=False),
    Column("strategy", ForeignKey("strategy.id"), nullable=False),
    Column("repeat", Integer, nullable=False),
    Column("state", Text, nullable=False, server_default="pending"),
    Column("reason", Text, comment="why it failed or waits for a person"),
    Column("try", SmallInteger, nullable=False, server_default="1"),
    Column("repetition", Text, comment="what its one automatic repetition was used for; also: by_hand"),
    Column("version", Integer, nullable=False, server_default="0"),
    Column("due", Boolean, nullable=False, server_default="false", comment="its next step can be taken"),
    _time("lease_until"),
    Column("answer", Text),
    Column("detail", JSONB, comment="how the strategy came to its answer, e.g. votes"),
    Column("confirmed_success", Boolean),
    Column("score", Double),
    Column("checks", JSONB, comment="what each check saw"),
    _time("started_at"),
    _time("finished_at"),
    UniqueConstraint("task", "strategy", "repeat"),
    _one_of("state", TRIAL_STATES),
    # Pages and counts of trials by state, strategy or task read nothing else.
    Index(
        "trial_state_idx", "run", "state", "id", postgresql_include=["task", "strategy", "confirmed_success"]
    ),
    Index("trial_open_idx", "run", postgresql_where=text("state IN ('pending', 'running')")),
    Index("trial_due_idx", "lease_until", postgresql_where=text("due")),
    postgresql_with={"fillfactor": "80"},
)

trial_file = Table(
    "trial_file",
    metadata,
    Column("trial", ForeignKey("trial.id"), primary_key=True),
    Column("try", SmallInteger, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
    comment="what an agent wrote in its folder",
)

worker = Table(
    "worker",
    metadata,
    Column("name", Text, primary_key=True, comment="host:pid:start"),
    _time("lease_until", nullable=False),
    Column("lease_no", Integer, nullable=False, server_default="1", comment="grows when a lease was over"),
    _time("started_at", nullable=False, default="now()"),
    Column("in_flight", Integer, nullable=False, server_default="0"),
    Column("waiting", Integer, nullable=False, server_default="0", comment="jobs that wait for capacity"),
)

judging = Table(
    "judging",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("run", ForeignKey("run.id"), nullable=False),
    Column("task", ForeignKey("task.id"), nullable=False),
    Column("repeat", Integer, nullable=False),
    Column("number", SmallInteger, nullable=False, comment="in its task and repeat; `round` of its jobs"),
    Column("judge", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("question", JSONB, nullable=False, comment="ids of the trials compared"),
    Column("state", Text, nullable=False, server_default="pending"),
    Column("version", Integer, nullable=False, server_default="0"),
    Column("due", Boolean, nullable=False, server_default="false", comment="its replies can be read"),
    _time("lease_until"),
    Column("readings", JSONB, comment="per call: the trials as shown, their scores, or the problem"),
    UniqueConstraint("task", "repeat", "number"),
    _one_of("state", JUDGING_STATES),
    Index("judging_run_idx", "run"),
    Index("judging_open_idx", "run", postgresql_where=text("state = 'pending'")),
    Index("judging_due_idx", "lease_until", postgresql_where=text("due")),
)

verdict = Table(
    "verdict",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("run", ForeignKey("run.id"), nullable=False),
    Column("judging", ForeignKey("judging.id"), comment="NULL for a verdict of an imported ledger"),
    Column("task", ForeignKey("task.id"), nullable=False),
    Column("winner", ForeignKey("trial.id"), nullable=False),
    Column("loser", ForeignKey("trial.id"), nullable=False),
    Column("tie", Boolean, nullable=False),
    Column("weight", Double, nullable=False, server_default="1"),
    Column("items", Integer, nullable=False, server_default="2", comment="how many were ranked together"),
    Index("verdict_run_idx", "run"),
    Index("verdict_judging_idx", "judging"),
    Index("verdict_task_idx", "task"),
    Index("verdict_winner_idx", "winner"),
    Index("verdict_loser_idx", "loser"),
)

job = Table(
    "job",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("run", ForeignKey("run.id"), nullable=False),
    Column("trial", ForeignKey("trial.id")),
    Column("judging", ForeignKey("judging.id")),
    Column("lane", ForeignKey("lane.id"), nullable=False),
    Column("try", SmallInteger, nullable=False, server_default="1"),
    Column("round", SmallInteger, nullable=False),
    Column("sample", SmallInteger, nullable=False),
    Column("state", Text, nullable=False, server_default="pending"),
    Column("request", JSONB, comment="NULL in round 1 and of a judging: made when it is sent"),
    Column("reserve_tokens", Integer, nullable=False, comment="upper bound of one attempt"),
    Column("reserve_cost_usd", Double, comment="upper bound of one attempt; NULL without a price"),
    Column("attempt", SmallInteger, nullable=False, server_default="0", comment="number of its calls"),
    Column("failures", SmallInteger, nullable=False, server_default="0", comment="tries used up"),
    Column("lost_leases", SmallInteger, nullable=False, server_default="0"),
    _time("throttled_since"),
    Column("retry_reason", Text, comment="why the next call is a retry"),
    Column("answer_attempt", SmallInteger, comment="the call whose answer is used"),
    Column("error", Text, comment="class of the last error"),
    Column("dispatch_no", Integer, nullable=False, server_default="0"),
    _time("dispatched_at"),
    _time("not_before", nullable=False, default="'-infinity'"),
    Column("worker", Text, comment="who runs it; the lease stands in worker"),
    CheckConstraint("(trial IS NULL) <> (judging IS NULL)", name="owner"),
    _one_of("state", JOB_STATES),
    Index("job_trial_slot_key", "trial", "try", "round", "sample", unique=True),
    Index(
        "job_judging_slot_key", "judging", "sample", unique=True, postgresql_where=text("judging IS NOT NULL")
    ),
    # One range scan gives what may be queued now, in the order it should be.
    Index("job_pending_idx", "run", "lane", "not_before", "id", postgresql_where=text("state = 'pending'")),
    Index("job_queued_idx", "run", "lane", "dispatched_at", postgresql_where=text("state = 'queued'")),
    Index("job_running_idx", "worker", postgresql_where=text("state = 'running'")),
    postgresql_with={"fillfactor": "70"},
)

call = Table(
    "call",
    metadata,
    Column("job", ForeignKey("job.id"), primary_key=True),
    Column("attempt", SmallInteger, primary_key=True),
    Column("turn", SmallInteger, primary_key=True, server_default="1"),
    # No foreign key: its check would make every commit of every worker share-lock the one row of the run.
    Column("run", Integer, nullable=False),
    Column("model", Text, nullable=False),
    Column("status", Text, nullable=False, server_default="started"),
    Column("error", Text, comment="class"),
    Column("message", Text, comment="one line for a person"),
    Column("purpose", Text, nullable=False),
    Column("retry_reason", Text),
    Column("reserve_tokens", Integer, nullable=False, comment="stays reserved while the outcome is unknown"),
    Column("reserve_cost_usd", Double),
    Column("input_tokens", Integer),
    Column("output_tokens", Integer),
    Column("total_tokens", Integer),
    Column("cached_input_tokens", Integer),
    Column("reasoning_tokens", Integer),
    Column("usage", JSONB, comment="as the gateway reported it"),
    Column("cost_usd", Double),
    Column("content", Text, comment="escaped where Postgres takes no such character: db.text"),
    Column("tool_calls", JSONB, comment="as the model wrote them"),
    Column("http_status", SmallInteger),
    Column("response_id", Text),
    Column("finish_reason", Text),
    Column("latency_ms", Integer),
    Column("first_byte_ms", Integer),
    Column("worker", Text, nullable=False),
    Column("key_fingerprint", Text, nullable=False),
    _time("started_at", nullable=False, default="clock_timestamp()"),
    _time("finished_at"),
    CheckConstraint("purpose IN ('first', 'retry', 'rerun')", name="purpose"),
    _one_of("status", CALL_STATES),
    Index("call_run_idx", "run"),
    Index("call_failed_idx", "run", "error", postgresql_where=text("status IN ('error', 'unknown')")),
    Index("call_started_idx", "worker", postgresql_where=text("status = 'started'")),
)

tally = Table(
    "tally",
    metadata,
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("owner", Text, primary_key=True, comment="one row per worker, so that no two wait for it"),
    _count("ok_calls"),
    _count("error_calls"),
    _count("unknown_calls"),
    _count("input_tokens"),
    _count("output_tokens"),
    Column("cost_usd", Double, nullable=False, server_default="0"),
    _count("unknown_usage_calls"),
    _count("held_tokens"),
    Column("held_cost_usd", Double, nullable=False, server_default="0"),
    comment="sums over settled calls for budgets and the live view; audit checks them against call",
)

archive = Table(
    "archive",
    metadata,
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("run_id", Text, nullable=False),
    Column("calls", BigInteger, nullable=False),
    Column("total_tokens", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False, comment="of the file that holds its ledger"),
    _time("archived_at", nullable=False, default="now()"),
    Column("archived_by", Text, nullable=False, server_default=text("CURRENT_USER")),
    comment="runs that were exported, verified and deleted; rows are never changed",
)
