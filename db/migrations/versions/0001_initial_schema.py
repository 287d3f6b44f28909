"""initial schema"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# The ledger as it is exported: one row for every HTTP attempt that has an outcome. `run` is there to select by.
LEDGER = """
CREATE VIEW ledger AS
SELECT run.run_id, run.source_platform, task.task_id, strategy.name AS strategy,
       coalesce(trial.repeat, judging.repeat) AS repeat, job.round, job.sample,
       call.attempt, call.model, call.input_tokens, call.output_tokens, call.total_tokens, call.cached_input_tokens,
       call.reasoning_tokens, call.latency_ms, call.status, call.error, call.content, job.try, call.turn,
       CASE WHEN job.judging IS NULL THEN 'generation' ELSE 'judge' END AS kind, call.purpose, call.retry_reason,
       coalesce(job.answer_attempt = call.attempt, false) AS used, call.http_status, call.response_id,
       call.first_byte_ms, call.finish_reason, call.usage, call.cost_usd, call.worker, call.started_at,
       call.finished_at, judged.winner, judged.opponent,
       call.run
FROM call
JOIN run ON run.id = call.run
JOIN job ON job.id = call.job
LEFT JOIN trial ON trial.id = job.trial
LEFT JOIN strategy ON strategy.id = trial.strategy
LEFT JOIN judging ON judging.id = job.judging
JOIN task ON task.id = coalesce(trial.task, judging.task)
LEFT JOIN judged ON judged.run = call.run AND judged.trial = job.trial
WHERE call.status <> 'started'
"""

# Per judged trial who won and whom it was compared with, one entry for each verdict, in the order of the opponents'
# names: strings where there is one verdict, lists where there are several.
JUDGED = """
CREATE VIEW judged AS
SELECT run, trial,
       CASE count(*) WHEN 1 THEN to_jsonb(min(winner)) ELSE jsonb_agg(winner ORDER BY opponent COLLATE "C", id) END
         AS winner,
       CASE count(*) WHEN 1 THEN to_jsonb(min(opponent)) ELSE jsonb_agg(opponent ORDER BY opponent COLLATE "C", id) END
         AS opponent
FROM (
  SELECT verdict.id, verdict.run, side.trial, theirs.name AS opponent,
         CASE WHEN verdict.tie THEN 'tie' WHEN side.won THEN ours.name ELSE theirs.name END AS winner
  FROM verdict
  CROSS JOIN LATERAL (VALUES (verdict.winner, verdict.loser, true), (verdict.loser, verdict.winner, false))
    AS side (trial, other, won)
  JOIN trial AS mine ON mine.id = side.trial
  JOIN strategy AS ours ON ours.id = mine.strategy
  JOIN trial AS another ON another.id = side.other
  JOIN strategy AS theirs ON theirs.id = another.strategy) AS said
GROUP BY run, trial
"""

# What a trial has spent or may still spend: the calls with an outcome, by their tokens or, where these are unknown and
# may have been billed, by their bound; and the bounds of what is out.
TRIAL_COMMITTED = """
CREATE FUNCTION trial_committed(wanted bigint, OUT tokens bigint, OUT cost_usd float8, OUT in_flight boolean)
LANGUAGE sql STABLE AS $$
  SELECT coalesce(sum(spent.tokens), 0)::bigint + coalesce(sum(job.reserve_tokens) FILTER (WHERE busy), 0)::bigint,
         coalesce(sum(spent.cost_usd), 0) + coalesce(sum(job.reserve_cost_usd) FILTER (WHERE busy), 0),
         coalesce(bool_or(busy), false)
  FROM (SELECT *, state IN ('queued', 'running') AS busy FROM job WHERE trial = wanted) AS job
  CROSS JOIN LATERAL (
    SELECT sum(CASE WHEN unsaid THEN reserve_tokens ELSE total_tokens END) AS tokens,
           sum(CASE WHEN unsaid THEN reserve_cost_usd ELSE call.cost_usd END) AS cost_usd
    FROM (SELECT *, status = 'unknown' OR (total_tokens IS NULL AND (status = 'ok' OR http_status BETWEEN 200 AND 299))
            AS unsaid
          FROM call WHERE call.job = job.id AND status <> 'started') AS call) AS spent
$$
"""


def upgrade() -> None:
    op.create_table(
        "file",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("file_pkey")),
    )
    op.create_table(
        "lane",
        sa.Column("id", sa.Integer(), sa.Identity(always=True), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("key_fingerprint", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("hold_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("hold_reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("lane_pkey")),
        sa.UniqueConstraint(
            "endpoint", "key_fingerprint", "model", name=op.f("lane_endpoint_key_fingerprint_model_key")
        ),
        comment="what shares one rate limit: a gateway, a key and a model",
    )
    op.create_table(
        "run",
        sa.Column("id", sa.Integer(), sa.Identity(always=True), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("source_platform", sa.Text(), nullable=False),
        sa.Column(
            "base_url",
            sa.Text(),
            nullable=True,
            comment="NULL until a simulated gateway has been started for it",
        ),
        sa.Column("state", sa.Text(), server_default="running", nullable=False),
        sa.Column("reason", sa.Text(), nullable=True, comment="why it is paused, and what to do"),
        sa.Column(
            "experiment",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="the whole file, normalised; holds no key",
        ),
        sa.Column("experiment_hash", sa.Text(), nullable=False),
        sa.Column("prompts_hash", sa.Text(), nullable=False),
        sa.Column("key_fingerprint", sa.Text(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column(
            "judgings",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment="per judge what was planned and its bound; NULL until it was",
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "state IN ('running', 'paused', 'finished', 'cancelled')", name=op.f("run_state_check")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("run_pkey")),
        sa.UniqueConstraint("run_id", name=op.f("run_run_id_key")),
    )
    op.create_table(
        "tally",
        sa.Column("run", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column(
            "owner", sa.Text(), nullable=False, comment="one row per worker, so that no two wait for it"
        ),
        sa.Column("ok_calls", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("error_calls", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("unknown_calls", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("cost_usd", sa.Double(), server_default="0", nullable=False),
        sa.Column("unknown_usage_calls", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("held_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("held_cost_usd", sa.Double(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("run", "owner", name=op.f("tally_pkey")),
        comment="sums over settled calls for budgets and the live view; audit checks them against call",
    )
    op.create_table(
        "worker",
        sa.Column("name", sa.Text(), nullable=False, comment="host:pid:start"),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("in_flight", sa.Integer(), server_default="0", nullable=False),
        sa.Column(
            "waiting", sa.Integer(), server_default="0", nullable=False, comment="jobs that wait for capacity"
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("worker_pkey")),
    )
    op.create_table(
        "run_lane",
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("lane", sa.Integer(), nullable=False),
        sa.Column("proven_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["lane"], ["lane.id"], name=op.f("run_lane_lane_fkey")),
        sa.ForeignKeyConstraint(["run"], ["run.id"], name=op.f("run_lane_run_fkey")),
        sa.PrimaryKeyConstraint("run", "lane", name=op.f("run_lane_pkey")),
        comment="until the first call of a run on a lane was answered (proven_at), it goes alone",
    )
    op.create_table(
        "strategy",
        sa.Column("id", sa.Integer(), sa.Identity(always=True), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("tier", sa.Integer(), nullable=False),
        sa.Column("params", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["run.id"], name=op.f("strategy_run_fkey")),
        sa.PrimaryKeyConstraint("id", name=op.f("strategy_pkey")),
        sa.UniqueConstraint("run", "name", name=op.f("strategy_run_name_key")),
    )
    op.create_table(
        "task",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("difficulty", sa.Text(), nullable=False),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.Column("goal", sa.Text(), nullable=False),
        sa.Column(
            "files", postgresql.JSONB(astext_type=sa.Text()), nullable=False, comment='{"name": "sha256", …}'
        ),
        sa.Column("reference", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("checks", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column(
            "prompt_bytes",
            sa.Integer(),
            nullable=False,
            comment="goal and files in UTF-8: no fewer than tokens",
        ),
        sa.ForeignKeyConstraint(["run"], ["run.id"], name=op.f("task_run_fkey")),
        sa.PrimaryKeyConstraint("id", name=op.f("task_pkey")),
        sa.UniqueConstraint("run", "task_id", name=op.f("task_run_task_id_key")),
    )
    op.create_table(
        "judging",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("task", sa.BigInteger(), nullable=False),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column(
            "number",
            sa.SmallInteger(),
            nullable=False,
            comment="in its task and repeat; `round` of its jobs",
        ),
        sa.Column("judge", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column(
            "question",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="ids of the trials compared",
        ),
        sa.Column("state", sa.Text(), server_default="pending", nullable=False),
        sa.Column("version", sa.Integer(), server_default="0", nullable=False),
        sa.Column(
            "due", sa.Boolean(), server_default="false", nullable=False, comment="its replies can be read"
        ),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "readings",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment="per call: the trials as shown, their scores, or the problem",
        ),
        sa.CheckConstraint(
            "state IN ('pending', 'ok', 'failed', 'cancelled')", name=op.f("judging_state_check")
        ),
        sa.ForeignKeyConstraint(["run"], ["run.id"], name=op.f("judging_run_fkey")),
        sa.ForeignKeyConstraint(["task"], ["task.id"], name=op.f("judging_task_fkey")),
        sa.PrimaryKeyConstraint("id", name=op.f("judging_pkey")),
        sa.UniqueConstraint("task", "repeat", "number", name=op.f("judging_task_repeat_number_key")),
    )
    op.create_index(
        "judging_due_idx", "judging", ["lease_until"], unique=False, postgresql_where=sa.text("due")
    )
    op.create_index(
        "judging_open_idx",
        "judging",
        ["run"],
        unique=False,
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_index("judging_run_idx", "judging", ["run"], unique=False)
    op.create_table(
        "trial",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("task", sa.BigInteger(), nullable=False),
        sa.Column("strategy", sa.Integer(), nullable=False),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), server_default="pending", nullable=False),
        sa.Column("reason", sa.Text(), nullable=True, comment="why it failed or waits for a person"),
        sa.Column("try", sa.SmallInteger(), server_default="1", nullable=False),
        sa.Column(
            "repetition",
            sa.Text(),
            nullable=True,
            comment="what its one automatic repetition was used for; also: by_hand",
        ),
        sa.Column("version", sa.Integer(), server_default="0", nullable=False),
        sa.Column(
            "due", sa.Boolean(), server_default="false", nullable=False, comment="its next step can be taken"
        ),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column(
            "detail",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment="how the strategy came to its answer, e.g. votes",
        ),
        sa.Column("confirmed_success", sa.Boolean(), nullable=True),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column(
            "checks", postgresql.JSONB(astext_type=sa.Text()), nullable=True, comment="what each check saw"
        ),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "state IN ('pending', 'running', 'ok', 'failed', 'over_budget', 'review', 'cancelled')",
            name=op.f("trial_state_check"),
        ),
        sa.ForeignKeyConstraint(["run"], ["run.id"], name=op.f("trial_run_fkey")),
        sa.ForeignKeyConstraint(["strategy"], ["strategy.id"], name=op.f("trial_strategy_fkey")),
        sa.ForeignKeyConstraint(["task"], ["task.id"], name=op.f("trial_task_fkey")),
        sa.PrimaryKeyConstraint("id", name=op.f("trial_pkey")),
        sa.UniqueConstraint("task", "strategy", "repeat", name=op.f("trial_task_strategy_repeat_key")),
        postgresql_with={"fillfactor": "80"},
    )
    op.create_index("trial_due_idx", "trial", ["lease_until"], unique=False, postgresql_where=sa.text("due"))
    op.create_index(
        "trial_open_idx",
        "trial",
        ["run"],
        unique=False,
        postgresql_where=sa.text("state IN ('pending', 'running')"),
    )
    op.create_index("trial_run_idx", "trial", ["run"], unique=False)
    op.create_table(
        "trial_file",
        sa.Column("trial", sa.BigInteger(), nullable=False),
        sa.Column("try", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["trial"], ["trial.id"], name=op.f("trial_file_trial_fkey")),
        sa.PrimaryKeyConstraint("trial", "try", "name", name=op.f("trial_file_pkey")),
        comment="what an agent wrote in its folder",
    )
    op.create_table(
        "job",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("trial", sa.BigInteger(), nullable=True),
        sa.Column("judging", sa.BigInteger(), nullable=True),
        sa.Column("lane", sa.Integer(), nullable=False),
        sa.Column("try", sa.SmallInteger(), server_default="1", nullable=False),
        sa.Column("round", sa.SmallInteger(), nullable=False),
        sa.Column("sample", sa.SmallInteger(), nullable=False),
        sa.Column("state", sa.Text(), server_default="pending", nullable=False),
        sa.Column(
            "request",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment="NULL in round 1 and of a judging: made when it is sent",
        ),
        sa.Column("reserve_tokens", sa.Integer(), nullable=False, comment="upper bound of one attempt"),
        sa.Column(
            "reserve_cost_usd",
            sa.Double(),
            nullable=True,
            comment="upper bound of one attempt; NULL without a price",
        ),
        sa.Column(
            "attempt", sa.SmallInteger(), server_default="0", nullable=False, comment="number of its calls"
        ),
        sa.Column("failures", sa.SmallInteger(), server_default="0", nullable=False, comment="tries used up"),
        sa.Column("lost_leases", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("throttled_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("retry_reason", sa.Text(), nullable=True, comment="why the next call is a retry"),
        sa.Column(
            "answer_attempt", sa.SmallInteger(), nullable=True, comment="the call whose answer is used"
        ),
        sa.Column("error", sa.Text(), nullable=True, comment="class of the last error"),
        sa.Column("dispatch_no", sa.Integer(), server_default="0", nullable=False),
        sa.Column("dispatched_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "not_before", sa.DateTime(timezone=True), server_default=sa.text("'-infinity'"), nullable=False
        ),
        sa.Column("worker", sa.Text(), nullable=True, comment="who runs it; the lease stands in worker"),
        sa.CheckConstraint(
            "state IN ('pending', 'queued', 'running', 'ok', 'failed', 'cancelled')",
            name=op.f("job_state_check"),
        ),
        sa.CheckConstraint("(trial IS NULL) <> (judging IS NULL)", name=op.f("job_owner_check")),
        sa.ForeignKeyConstraint(["judging"], ["judging.id"], name=op.f("job_judging_fkey")),
        sa.ForeignKeyConstraint(["lane"], ["lane.id"], name=op.f("job_lane_fkey")),
        sa.ForeignKeyConstraint(["run"], ["run.id"], name=op.f("job_run_fkey")),
        sa.ForeignKeyConstraint(["trial"], ["trial.id"], name=op.f("job_trial_fkey")),
        sa.PrimaryKeyConstraint("id", name=op.f("job_pkey")),
        postgresql_with={"fillfactor": "70"},
    )
    op.create_index("job_judging_slot_key", "job", ["judging", "sample"], unique=True)
    op.create_index(
        "job_pending_idx",
        "job",
        ["run", "lane", "not_before", "id"],
        unique=False,
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_index(
        "job_queued_idx",
        "job",
        ["run", "lane", "dispatched_at"],
        unique=False,
        postgresql_where=sa.text("state = 'queued'"),
    )
    op.create_index(
        "job_running_idx", "job", ["worker"], unique=False, postgresql_where=sa.text("state = 'running'")
    )
    op.create_index("job_trial_slot_key", "job", ["trial", "try", "round", "sample"], unique=True)
    op.create_table(
        "verdict",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column(
            "judging",
            sa.BigInteger(),
            nullable=True,
            comment="NULL for a verdict of an imported ledger",
        ),
        sa.Column("task", sa.BigInteger(), nullable=False),
        sa.Column("winner", sa.BigInteger(), nullable=False),
        sa.Column("loser", sa.BigInteger(), nullable=False),
        sa.Column("tie", sa.Boolean(), nullable=False),
        sa.Column("weight", sa.Double(), server_default="1", nullable=False),
        sa.Column(
            "items",
            sa.Integer(),
            server_default="2",
            nullable=False,
            comment="how many were ranked together",
        ),
        sa.ForeignKeyConstraint(["judging"], ["judging.id"], name=op.f("verdict_judging_fkey")),
        sa.ForeignKeyConstraint(["loser"], ["trial.id"], name=op.f("verdict_loser_fkey")),
        sa.ForeignKeyConstraint(["run"], ["run.id"], name=op.f("verdict_run_fkey")),
        sa.ForeignKeyConstraint(["task"], ["task.id"], name=op.f("verdict_task_fkey")),
        sa.ForeignKeyConstraint(["winner"], ["trial.id"], name=op.f("verdict_winner_fkey")),
        sa.PrimaryKeyConstraint("id", name=op.f("verdict_pkey")),
    )
    op.create_index("verdict_judging_idx", "verdict", ["judging"], unique=False)
    op.create_index("verdict_run_idx", "verdict", ["run"], unique=False)
    op.create_table(
        "call",
        sa.Column("job", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.SmallInteger(), nullable=False),
        sa.Column("turn", sa.SmallInteger(), server_default="1", nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), server_default="started", nullable=False),
        sa.Column("error", sa.Text(), nullable=True, comment="class"),
        sa.Column("message", sa.Text(), nullable=True, comment="one line for a person"),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("retry_reason", sa.Text(), nullable=True),
        sa.Column(
            "reserve_tokens",
            sa.Integer(),
            nullable=False,
            comment="stays reserved while the outcome is unknown",
        ),
        sa.Column("reserve_cost_usd", sa.Double(), nullable=True),
        sa.Column("input_tokens", sa.Integer(), nullable=True),
        sa.Column("output_tokens", sa.Integer(), nullable=True),
        sa.Column("total_tokens", sa.Integer(), nullable=True),
        sa.Column("cached_input_tokens", sa.Integer(), nullable=True),
        sa.Column("reasoning_tokens", sa.Integer(), nullable=True),
        sa.Column(
            "usage",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment="as the gateway reported it",
        ),
        sa.Column("cost_usd", sa.Double(), nullable=True),
        sa.Column(
            "content",
            sa.Text(),
            nullable=True,
            comment="escaped where Postgres takes no such character: db.text",
        ),
        sa.Column(
            "tool_calls",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment="as the model wrote them",
        ),
        sa.Column("http_status", sa.SmallInteger(), nullable=True),
        sa.Column("response_id", sa.Text(), nullable=True),
        sa.Column("finish_reason", sa.Text(), nullable=True),
        sa.Column("latency_ms", sa.Integer(), nullable=True),
        sa.Column("first_byte_ms", sa.Integer(), nullable=True),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("key_fingerprint", sa.Text(), nullable=False),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("purpose IN ('first', 'retry', 'rerun')", name=op.f("call_purpose_check")),
        sa.CheckConstraint("status IN ('started', 'ok', 'error', 'unknown')", name=op.f("call_status_check")),
        sa.ForeignKeyConstraint(["job"], ["job.id"], name=op.f("call_job_fkey")),
        sa.PrimaryKeyConstraint("job", "attempt", "turn", name=op.f("call_pkey")),
    )
    op.create_index("call_run_idx", "call", ["run"], unique=False)
    op.create_index(
        "call_started_idx", "call", ["worker"], unique=False, postgresql_where=sa.text("status = 'started'")
    )

    op.execute(JUDGED)
    op.execute(LEDGER)
    op.execute(TRIAL_COMMITTED)


def downgrade() -> None:
    op.execute("DROP FUNCTION trial_committed")
    op.execute("DROP VIEW ledger")
    op.execute("DROP VIEW judged")
    op.drop_index("call_started_idx", table_name="call", postgresql_where=sa.text("status = 'started'"))
    op.drop_index("call_run_idx", table_name="call")
    op.drop_table("call")
    op.drop_index("verdict_run_idx", table_name="verdict")
    op.drop_index("verdict_judging_idx", table_name="verdict")
    op.drop_table("verdict")
    op.drop_index("job_trial_slot_key", table_name="job")
    op.drop_index("job_running_idx", table_name="job", postgresql_where=sa.text("state = 'running'"))
    op.drop_index("job_queued_idx", table_name="job", postgresql_where=sa.text("state = 'queued'"))
    op.drop_index("job_pending_idx", table_name="job", postgresql_where=sa.text("state = 'pending'"))
    op.drop_index("job_judging_slot_key", table_name="job")
    op.drop_table("job")
    op.drop_index("trial_run_idx", table_name="trial")
    op.drop_index(
        "trial_open_idx", table_name="trial", postgresql_where=sa.text("state IN ('pending', 'running')")
    )
    op.drop_index("trial_due_idx", table_name="trial", postgresql_where=sa.text("due"))
    op.drop_table("trial_file")
    op.drop_table("trial")
    op.drop_index("judging_run_idx", table_name="judging")
    op.drop_index("judging_open_idx", table_name="judging", postgresql_where=sa.text("state = 'pending'"))
    op.drop_index("judging_due_idx", table_name="judging", postgresql_where=sa.text("due"))
    op.drop_table("judging")
    op.drop_table("task")
    op.drop_table("strategy")
    op.drop_table("run_lane")
    op.drop_table("worker")
    op.drop_table("tally")
    op.drop_table("run")
    op.drop_table("lane")
    op.drop_table("file")
