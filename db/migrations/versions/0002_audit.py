"""audit: an append-only ledger, views over it, the auditor's role, archived runs"""
# ruff: noqa: S608  (the statements are put together from the constants of this file)

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# One row for every call, also those in flight. `used`, `part` and the two `unknown_…` flags say how it counts.
CALLS = """
CREATE VIEW audit_calls AS
SELECT call.run, run.run_id, task.task_id, task.category, strategy.name AS strategy,
       coalesce(trial.repeat, judging.repeat) AS repeat, job.try, job.round, job.sample, call.attempt, call.turn,
       job.attempt AS attempts,
       CASE WHEN job.judging IS NULL THEN 'generation' ELSE 'judge' END AS kind, call.model, call.status, call.error,
       call.http_status, call.purpose, call.retry_reason,
       coalesce(job.answer_attempt = call.attempt AND call.status = 'ok', false) AS used,
       CASE WHEN call.status = 'started' THEN NULL
            WHEN job.answer_attempt = call.attempt AND call.status = 'ok'
            THEN CASE job.try WHEN 1 THEN 'first' ELSE 'rerun' END
            ELSE 'waste' END AS part,
       call.input_tokens, call.output_tokens, call.total_tokens, call.cached_input_tokens, call.reasoning_tokens,
       call.cost_usd,
       call.total_tokens IS NULL AND (call.status IN ('ok', 'unknown') OR call.status = 'error'
         AND coalesce(call.http_status BETWEEN 200 AND 299, false)) AS unknown_usage,
       call.cost_usd IS NULL AND (call.total_tokens IS NOT NULL OR call.status IN ('ok', 'unknown')
         OR call.status = 'error' AND coalesce(call.http_status BETWEEN 200 AND 299, false)) AS unknown_cost,
       call.reserve_tokens, call.reserve_cost_usd, call.latency_ms, call.first_byte_ms, call.finish_reason,
       call.response_id, call.worker, call.key_fingerprint, call.started_at, call.finished_at,
       (call.started_at AT TIME ZONE 'UTC')::date AS day, call.job, job.trial, job.judging
FROM call
JOIN run ON run.id = call.run
JOIN job ON job.id = call.job
LEFT JOIN trial ON trial.id = job.trial
LEFT JOIN judging ON judging.id = job.judging
LEFT JOIN strategy ON strategy.id = trial.strategy
LEFT JOIN task ON task.id = coalesce(trial.task, judging.task)
"""

# What is told of any group of calls. Averages are of first attempts that are ok; those of retries stand by themselves.
MEASURES = """
count(*) AS calls,
count(*) FILTER (WHERE status = 'ok') AS ok_calls,
count(*) FILTER (WHERE status = 'error') AS error_calls,
count(*) FILTER (WHERE status = 'unknown') AS unknown_calls,
count(*) FILTER (WHERE status = 'started') AS started_calls,
count(*) FILTER (WHERE used) AS used_calls,
count(*) FILTER (WHERE status = 'ok' AND NOT used) AS unused_ok_calls,
count(*) FILTER (WHERE purpose <> 'first') AS retry_calls,
sum(input_tokens) AS sum_input_tokens,
sum(output_tokens) AS sum_output_tokens,
sum(total_tokens) AS sum_total_tokens,
sum(cost_usd) AS sum_cost_usd,
sum(total_tokens) FILTER (WHERE part = 'first') AS sum_first_tokens,
sum(total_tokens) FILTER (WHERE part = 'rerun') AS sum_rerun_tokens,
sum(total_tokens) FILTER (WHERE part = 'waste') AS sum_waste_tokens,
count(*) FILTER (WHERE unknown_usage) AS unknown_usage_calls,
count(*) FILTER (WHERE unknown_cost) AS unknown_cost_calls,
(avg(input_tokens) FILTER (WHERE status = 'ok' AND purpose = 'first'))::float8 AS avg_input_tokens_per_call,
(avg(output_tokens) FILTER (WHERE status = 'ok' AND purpose = 'first'))::float8 AS avg_output_tokens_per_call,
(avg(total_tokens) FILTER (WHERE status = 'ok' AND purpose = 'first'))::float8 AS avg_total_tokens_per_call,
avg(cost_usd) FILTER (WHERE status = 'ok' AND purpose = 'first') AS avg_cost_usd_per_call,
(avg(latency_ms) FILTER (WHERE status = 'ok' AND purpose = 'first'))::float8 AS avg_latency_ms_per_call,
(avg(total_tokens) FILTER (WHERE status = 'ok' AND purpose <> 'first'))::float8 AS avg_retry_total_tokens_per_call,
min(started_at) AS first_at,
max(started_at) AS last_at
"""

# View -> what its calls are grouped by, besides run and kind; and which calls it is about.
GROUPED = {
    "audit_rounds": ("strategy, round", "true"),
    "audit_errors": ("model, status, error, http_status", "status IN ('error', 'unknown')"),
    "audit_retries": ("strategy, purpose, retry_reason", "purpose <> 'first'"),
    "audit_status": ("status", "true"),
    "audit_daily": ("day, model, key_fingerprint", "true"),
    "audit_workers": ("worker", "true"),
}

MODELS = f"""
CREATE VIEW audit_models AS
SELECT grouped.*, (SELECT experiment -> 'prices' ? grouped.model FROM run WHERE run.id = grouped.run) AS priced
FROM (SELECT run, run_id, kind, model, {MEASURES} FROM audit_calls GROUP BY run, run_id, kind, model) AS grouped
"""

# A used call that does not say its tokens makes its trial's unknown. Of a trial without a call nothing is known.
_KNOWN = """CASE WHEN count(*) FILTER (WHERE {rows} AND call.{column} IS NULL) = 0
                 AND count(*) FILTER (WHERE call.status <> 'started') > 0
            THEN coalesce(sum(call.{column}) FILTER (WHERE {rows}), 0) END"""
_USED = "job.answer_attempt = call.attempt AND call.status = 'ok'"
_UNUSED = f"call.status <> 'started' AND ({_USED}) IS NOT TRUE"
_PAID = (
    "(call.status IN ('ok', 'unknown') OR call.status = 'error' "
    "AND coalesce(call.http_status BETWEEN 200 AND 299, false))"
)


def _known(column: str, rows: str) -> str:
    return _KNOWN.format(column=column, rows=rows)


# One row for every trial, also one without a call. From `trial` by its indexes: a filter by run reaches every table.
TRIALS = f"""
CREATE VIEW audit_trials AS
SELECT *, first_tokens + rerun_tokens AS total_tokens, rerun_tokens + waste_tokens AS retry_tokens
FROM (
  SELECT run.id AS run, run.run_id, task.task_id, task.category, task.weight AS task_weight,
         strategy.name AS strategy, strategy.position, trial.repeat, trial.id AS trial, trial.state,
         trial.confirmed_success, trial.state = 'ok' OR trial.confirmed_success IS NOT NULL AS answered,
         count(call.job) AS calls,
         count(*) FILTER (WHERE call.status = 'ok') AS ok_calls,
         {_known("input_tokens", _USED)}::bigint AS input_tokens,
         {_known("output_tokens", _USED)}::bigint AS output_tokens,
         {_known("total_tokens", _USED + " AND job.try = 1")}::bigint AS first_tokens,
         {_known("total_tokens", _USED + " AND job.try > 1")}::bigint AS rerun_tokens,
         coalesce(sum(call.total_tokens) FILTER (WHERE {_UNUSED}), 0)::bigint AS waste_tokens,
         {_known("cost_usd", _USED)} AS cost_usd,
         coalesce(sum(call.cost_usd) FILTER (WHERE {_UNUSED}), 0) AS waste_usd,
         sum(call.input_tokens) AS sum_input_tokens, sum(call.output_tokens) AS sum_output_tokens,
         sum(call.total_tokens) AS sum_total_tokens, sum(call.cost_usd) AS sum_cost_usd,
         count(*) FILTER (WHERE call.total_tokens IS NULL AND {_PAID}) AS unknown_usage_calls,
         count(*) FILTER (WHERE call.cost_usd IS NULL AND (call.total_tokens IS NOT NULL OR {_PAID}))
           AS unknown_cost_calls
  FROM run
  JOIN trial ON trial.run = run.id
  JOIN task ON task.id = trial.task
  JOIN strategy ON strategy.id = trial.strategy
  LEFT JOIN job ON job.trial = trial.id
  LEFT JOIN call ON call.job = job.id
  GROUP BY run.id, task.id, strategy.id, trial.id) AS spent
"""

SUMS = """sum(calls)::bigint AS calls, sum(ok_calls)::bigint AS ok_calls,
          sum(sum_input_tokens)::bigint AS sum_input_tokens, sum(sum_output_tokens)::bigint AS sum_output_tokens,
          sum(sum_total_tokens)::bigint AS sum_total_tokens, sum(sum_cost_usd) AS sum_cost_usd,
          sum(unknown_usage_calls)::bigint AS unknown_usage_calls,
          sum(unknown_cost_calls)::bigint AS unknown_cost_calls"""
AVERAGED = (
    "input_tokens",
    "output_tokens",
    "first_tokens",
    "total_tokens",
    "retry_tokens",
    "cost_usd",
    "waste_usd",
)
COUNTED = "trials, ok_trials, judged_trials, successes, unknown_usage_trials, unknown_cost_trials"

# Averages over the answered repeats; unknown ones are left out and counted.
TASK_STRATEGY = f"""
CREATE VIEW audit_task_strategy AS
SELECT run, run_id, task_id, category, task_weight, strategy, position,
       count(*) AS trials,
       count(*) FILTER (WHERE answered) AS ok_trials,
       count(confirmed_success) AS judged_trials,
       count(*) FILTER (WHERE confirmed_success) AS successes,
       count(*) FILTER (WHERE answered AND total_tokens IS NULL) AS unknown_usage_trials,
       count(*) FILTER (WHERE answered AND cost_usd IS NULL) AS unknown_cost_trials,
       {SUMS},
       {", ".join(f"(avg({name}) FILTER (WHERE answered))::float8 AS avg_{name}" for name in AVERAGED)},
       (avg(confirmed_success::int) FILTER (WHERE answered))::float8 AS success_rate
FROM audit_trials
GROUP BY run, run_id, task_id, category, task_weight, strategy, position
"""


def _over_tasks(column: str) -> str:
    weights = f"sum(task_weight) FILTER (WHERE {column} IS NOT NULL)"
    return f"sum({column} * task_weight) / nullif({weights}, 0) AS {column}"


STRATEGY = f"""
CREATE VIEW audit_strategy AS
SELECT run, run_id, strategy, position, count(*) AS tasks,
       {", ".join(f"sum({name})::bigint AS {name}" for name in COUNTED.split(", "))},
       {SUMS},
       {", ".join(_over_tasks(f"avg_{name}") for name in AVERAGED)},
       {_over_tasks("success_rate")}
FROM audit_task_strategy
GROUP BY run, run_id, strategy, position
"""

SAID = {
    "audit_calls": "one row per call, those in flight too",
    "audit_rounds": "calls by strategy and round",
    "audit_trials": "one row per trial: first, rerun and waste; NULL where a used call does not say",
    "audit_task_strategy": "averages over the answered repeats of a task with a strategy",
    "audit_strategy": "the same averaged over tasks by their weights",
    "audit_models": "calls by model, and whether it has a price",
    "audit_errors": "calls without an answer by their reason",
    "audit_retries": "calls that were no first attempt, by their reason",
    "audit_status": "calls by status",
    "audit_daily": "calls by UTC day of their start, model and key",
    "audit_workers": "calls by the worker that sent them",
}

REFUSE = """
CREATE FUNCTION refuse_ledger_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE restrict_violation USING
    MESSAGE = format('The ledger is append-only: this %s of "%s" is refused.', TG_OP, TG_TABLE_NAME),
    HINT = 'An outcome is written once, what a call belongs to never changes. '
           'A finished run leaves by: paretoken db archive RUN_ID --out FILE';
END $$
"""

# Whether the run was archived is asked of a table that nobody can change either: `archive_run` writes it.
REFUSE_DELETE = """
CREATE FUNCTION refuse_ledger_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM gone WHERE NOT EXISTS (SELECT FROM archive WHERE archive.run = gone.run))
     OR NOT pg_has_role((SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE') THEN
    RAISE restrict_violation USING
      MESSAGE = 'The ledger is append-only: no call can be deleted.',
      HINT = 'A finished run leaves by: paretoken db archive RUN_ID --out FILE';
  END IF;
  RETURN NULL;
END $$
"""

IDENTITY = (
    "job, attempt, turn, run, model, purpose, retry_reason, reserve_tokens, reserve_cost_usd, worker, "
    "key_fingerprint, started_at"
)


def _row(which: str) -> str:
    return ", ".join(f"{which}.{column.strip()}" for column in IDENTITY.split(","))


# A WHEN is judged without a call of the function, which runs for refusals alone.
SETTLED_ONCE = f"""
CREATE TRIGGER call_settled_once AFTER UPDATE ON call FOR EACH ROW
WHEN (OLD.status IN ('ok', 'error') OR NEW.status = 'started' OR (OLD.status = 'unknown' AND NEW.status = 'unknown')
      OR ({_row("OLD")}) IS DISTINCT FROM ({_row("NEW")}))
EXECUTE FUNCTION refuse_ledger_change()
"""
DELETED_WITH_ITS_RUN = """
CREATE TRIGGER call_deleted_with_its_run AFTER DELETE ON call REFERENCING OLD TABLE AS gone
FOR EACH STATEMENT EXECUTE FUNCTION refuse_ledger_delete()
"""
USED_ONCE = """
CREATE TRIGGER job_answered_once AFTER UPDATE OF answer_attempt ON job FOR EACH ROW
WHEN (OLD.answer_attempt IS NOT NULL AND NEW.answer_attempt IS DISTINCT FROM OLD.answer_attempt)
EXECUTE FUNCTION refuse_ledger_change()
"""
# What a ledger row says of its run, task, strategy and place: such an UPDATE is refused whatever it would write.
KEPT = {
    "run": "id, run_id, source_platform",
    "task": "id, run, task_id",
    "strategy": "id, run, name",
    "trial": "id, run, task, strategy, repeat",
    "judging": "id, run, task, repeat, number",
    "job": "id, run, trial, judging, try, round, sample",
}

# Refuses what is not over, and a file that does not hold what the ledger holds. Trials are locked before the run, as
# everywhere.
ARCHIVE = """
CREATE FUNCTION archive_run(wanted text, file_calls bigint, file_tokens bigint, file_sha256 text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  gone run%ROWTYPE;
  held record;
BEGIN
  PERFORM FROM trial JOIN run ON run.id = trial.run WHERE run.run_id = wanted ORDER BY trial.id FOR UPDATE OF trial;
  SELECT * INTO gone FROM run WHERE run_id = wanted FOR UPDATE;
  IF NOT FOUND OR gone.state NOT IN ('finished', 'cancelled') THEN
    RAISE restrict_violation USING MESSAGE = format('Run %L is %s; only a finished or cancelled run can be archived.',
                                                    wanted, coalesce(gone.state, 'not there'));
  END IF;
  SELECT count(*) AS calls, coalesce(sum(total_tokens), 0) AS tokens, count(*) FILTER (WHERE status = 'started') AS open
  INTO held FROM call WHERE run = gone.id;
  IF held.open > 0 THEN
    RAISE restrict_violation USING MESSAGE = format('Run %L has %s calls in flight; wait for their outcomes.',
                                                    wanted, held.open);
  END IF;
  IF (held.calls, held.tokens) IS DISTINCT FROM (file_calls, file_tokens) THEN
    RAISE restrict_violation USING MESSAGE = format(
      'The file holds %s calls and %s tokens, the ledger of run %L %s and %s; nothing was deleted.',
      file_calls, file_tokens, wanted, held.calls, held.tokens);
  END IF;
  INSERT INTO archive (run, run_id, calls, total_tokens, sha256)
  VALUES (gone.id, wanted, held.calls, held.tokens, file_sha256);
  DELETE FROM call WHERE run = gone.id;
  DELETE FROM verdict WHERE run = gone.id;
  DELETE FROM job USING trial WHERE trial.run = gone.id AND job.trial = trial.id;
  DELETE FROM job USING judging WHERE judging.run = gone.id AND job.judging = judging.id;
  DELETE FROM judging WHERE run = gone.id;
  DELETE FROM trial_file USING trial WHERE trial.run = gone.id AND trial_file.trial = trial.id;
  DELETE FROM trial WHERE run = gone.id;
  DELETE FROM task WHERE run = gone.id;
  DELETE FROM strategy WHERE run = gone.id;
  DELETE FROM run_lane WHERE run = gone.id;
  DELETE FROM tally WHERE run = gone.id;
  DELETE FROM run WHERE id = gone.id;
  RETURN held.calls;
END $$
"""

# Roles belong to the whole server, so that another database's migration may make it at this very moment.
GRANT = """
CREATE FUNCTION grant_auditor() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  readable text;
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'paretoken_auditor') THEN
    BEGIN
      CREATE ROLE paretoken_auditor NOLOGIN;
    EXCEPTION
      WHEN duplicate_object OR unique_violation THEN NULL;
      WHEN insufficient_privilege THEN RETURN false;
    END;
  END IF;
  IF NOT has_schema_privilege('paretoken_auditor', current_schema(), 'USAGE') THEN
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO paretoken_auditor', current_schema());
  END IF;
  SELECT string_agg(oid::regclass::text, ', ') INTO readable FROM pg_class
  WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'v') AND pg_has_role(relowner, 'USAGE');
  EXECUTE format('GRANT SELECT ON %s TO paretoken_auditor', readable);
  EXECUTE format('ALTER DEFAULT PRIVILEGES IN SCHEMA %I GRANT SELECT ON TABLES TO paretoken_auditor', current_schema());
  RETURN true;
END $$
"""
# The role itself stays: other databases may have it.
UNGRANT = """
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'paretoken_auditor') THEN
    EXECUTE format('ALTER DEFAULT PRIVILEGES IN SCHEMA %1$I REVOKE SELECT ON TABLES FROM paretoken_auditor',
                   current_schema());
    EXECUTE format('REVOKE SELECT ON ALL TABLES IN SCHEMA %I FROM paretoken_auditor', current_schema());
  END IF;
END $$
"""


def upgrade() -> None:
    op.create_table(
        "archive",
        sa.Column("run", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("total_tokens", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False, comment="of the file that holds its ledger"),
        sa.Column("archived_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("archived_by", sa.Text(), server_default=sa.text("CURRENT_USER"), nullable=False),
        sa.PrimaryKeyConstraint("run", name=op.f("archive_pkey")),
        comment="runs that were exported, verified and deleted; rows are never changed",
    )
    # Without them deleting a trial would search all verdicts.
    for column in ("task", "winner", "loser"):
        op.create_index(f"verdict_{column}_idx", "verdict", [column], unique=False)
    _create_views()
    _create_guards()
    op.execute(ARCHIVE)
    op.execute("REVOKE ALL ON FUNCTION archive_run FROM PUBLIC")
    op.execute(GRANT)
    op.execute("REVOKE ALL ON FUNCTION grant_auditor FROM PUBLIC")
    op.execute("SELECT grant_auditor()")


def _create_views() -> None:
    op.execute(CALLS)
    for view, (columns, rows) in GROUPED.items():
        by = f"run, run_id, kind, {columns}"
        op.execute(
            f"CREATE VIEW {view} AS SELECT {by}, {MEASURES} FROM audit_calls WHERE {rows} GROUP BY {by}"
        )
    for view in (MODELS, TRIALS, TASK_STRATEGY, STRATEGY):
        op.execute(view)
    for name, text in SAID.items():
        op.execute(f"COMMENT ON VIEW {name} IS '{text}'")


def _create_guards() -> None:
    for statement in (REFUSE, REFUSE_DELETE, SETTLED_ONCE, DELETED_WITH_ITS_RUN, USED_ONCE):
        op.execute(statement)
    for table, columns in KEPT.items():
        _refuse(f"{table}_identity_kept", f"UPDATE OF {columns}", table)
    _refuse("call_not_truncated", "TRUNCATE", "call")
    _refuse("archive_kept", "UPDATE OR DELETE OR TRUNCATE", "archive")


def _refuse(name: str, moves: str, table: str) -> None:
    op.execute(
        f"CREATE TRIGGER {name} BEFORE {moves} ON {table} FOR EACH STATEMENT EXECUTE FUNCTION refuse_ledger_change()"
    )


def downgrade() -> None:
    op.execute(UNGRANT)
    op.execute("DROP FUNCTION grant_auditor")
    op.execute("DROP FUNCTION archive_run")
    for name in ("call_settled_once", "call_deleted_with_its_run", "call_not_truncated"):
        op.execute(f"DROP TRIGGER {name} ON call")
    op.execute("DROP TRIGGER job_answered_once ON job")
    for table in KEPT:
        op.execute(f"DROP TRIGGER {table}_identity_kept ON {table}")
    for view in (
        "audit_strategy",
        "audit_task_strategy",
        "audit_trials",
        "audit_models",
        *GROUPED,
        "audit_calls",
    ):
        op.execute(f"DROP VIEW {view}")
    for column in ("task", "winner", "loser"):
        op.drop_index(f"verdict_{column}_idx", table_name="verdict")
    op.drop_table("archive")
    op.execute("DROP FUNCTION refuse_ledger_delete")
    op.execute("DROP FUNCTION refuse_ledger_change")
