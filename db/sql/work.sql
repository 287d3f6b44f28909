-- A worker's moves. The fence is (dispatch_no, attempt): a claim needs the first to be as the message says, a call both to
-- be as the worker knows them.
-- Locks are taken in the order worker, trial, judging, job, call, and by id, by everybody.

-- name: heartbeat
-- One row carries the lease of all that a worker holds. A lease that was over is not renewed: the next one begins, since
-- what was held under the old one may have been given away. So it is where the reaper has forgotten the worker.
INSERT INTO worker (name, lease_until, lease_no, in_flight, waiting)
VALUES (%(worker)s, now() + make_interval(secs => %(lease_s)s), %(lease_no)s::int + 1, %(in_flight)s, %(waiting)s)
ON CONFLICT (name) DO UPDATE
SET lease_until = EXCLUDED.lease_until, in_flight = EXCLUDED.in_flight, waiting = EXCLUDED.waiting,
    lease_no = worker.lease_no + (worker.lease_until <= now())::int
RETURNING lease_no;

-- name: end_worker
-- A worker that stops cleanly gives up its lease at once.
UPDATE worker SET lease_until = now(), in_flight = 0, waiting = 0 WHERE name = %(worker)s;

-- name: claim
-- queued -> running. A message that is stale finds no row and is dropped. What this worker has already is given again:
-- the answer to its first claim may have been lost.
WITH mine AS MATERIALIZED (
  SELECT job.id
  FROM unnest(%(jobs)s::bigint[], %(dispatch_nos)s::int[]) AS item (job, dispatch_no)
  JOIN job ON job.id = item.job AND job.dispatch_no = item.dispatch_no
  JOIN run ON run.id = job.run
  JOIN worker ON worker.name = %(worker)s AND worker.lease_until > now()
  WHERE (job.state = 'queued' AND run.state = 'running') OR (job.state = 'running' AND job.worker = %(worker)s)
  ORDER BY job.id
  -- The reaper, which locks the worker, sees this claim or comes before it.
  FOR UPDATE OF job FOR KEY SHARE OF worker)
UPDATE job SET state = 'running', worker = %(worker)s
FROM mine
JOIN job AS own ON own.id = mine.id
JOIN run_lane ON run_lane.run = own.run AND run_lane.lane = own.lane
LEFT JOIN trial ON trial.id = own.trial
LEFT JOIN judging ON judging.id = own.judging
WHERE job.id = mine.id
RETURNING job.id AS job, job.run, job.lane, job.trial, job.judging, coalesce(trial.task, judging.task) AS task,
          trial.strategy, coalesce(trial.repeat, judging.repeat) AS repeat, job.try, job.round, job.sample,
          job.dispatch_no, job.attempt, job.failures,
          coalesce(extract(epoch FROM now() - job.throttled_since), 0)::float8 AS throttled_s, job.retry_reason,
          job.request, job.reserve_tokens, job.reserve_cost_usd, run_lane.proven_at IS NOT NULL AS proven;

-- name: hand_back
-- running -> pending without a call: no capacity for long, the run was paused, or the worker stops. Uses up no try.
-- A trial or judging that has ended meanwhile needs the job no more; its lock keeps it from ending unseen just now.
WITH owner AS MATERIALIZED (
  SELECT id, state FROM trial WHERE id IN (SELECT trial FROM job WHERE id = ANY(%(jobs)s))
  ORDER BY id FOR NO KEY UPDATE),
question AS MATERIALIZED (
  SELECT id, state FROM judging WHERE id IN (SELECT judging FROM job WHERE id = ANY(%(jobs)s))
  ORDER BY id FOR NO KEY UPDATE),
mine AS MATERIALIZED (
  SELECT job.id, item.delay_s,
         coalesce(owner.state NOT IN ('pending', 'running'), question.state <> 'pending') AS ended
  FROM unnest(%(jobs)s::bigint[], %(dispatch_nos)s::int[], %(delays_s)s::float8[]) AS item (job, dispatch_no, delay_s)
  JOIN job ON job.id = item.job AND job.dispatch_no = item.dispatch_no
  LEFT JOIN owner ON owner.id = job.trial
  LEFT JOIN question ON question.id = job.judging
  WHERE job.state = 'running' AND job.worker = %(worker)s
  ORDER BY job.id
  FOR UPDATE OF job)
UPDATE job
SET state = CASE WHEN mine.ended OR run.state = 'cancelled' THEN 'cancelled' ELSE 'pending' END,
    worker = NULL,
    not_before = CASE WHEN mine.delay_s > 0 THEN now() + make_interval(secs => mine.delay_s) ELSE job.not_before END
FROM mine, run
WHERE job.id = mine.id AND run.id = job.run
RETURNING job.id AS job;

-- name: lock_trials
SELECT id FROM trial WHERE id = ANY(%(trials)s) ORDER BY id FOR NO KEY UPDATE;

-- name: lock_jobs
SELECT id FROM job WHERE id = ANY(%(jobs)s) ORDER BY id FOR NO KEY UPDATE;

-- name: start_calls
-- The call row is there, and committed, before a request leaves. Needs a running run, an open trial or judging, and the
-- lease under which it was asked for: one that waited for Postgres past its lease is not made under the next.
WITH started AS (
  INSERT INTO call (job, attempt, run, model, purpose, retry_reason, reserve_tokens, reserve_cost_usd, worker,
                    key_fingerprint)
  SELECT job.id, item.attempt, job.run, item.model,
         CASE WHEN job.attempt > 0 THEN 'retry' WHEN job.try > 1 THEN 'rerun' ELSE 'first' END,
         CASE WHEN job.attempt > 0 THEN job.retry_reason WHEN job.try > 1 THEN trial.repetition END,
         job.reserve_tokens, job.reserve_cost_usd, %(worker)s, item.key_fingerprint
  FROM unnest(%(jobs)s::bigint[], %(dispatch_nos)s::int[], %(attempts)s::int[], %(models)s::text[],
              %(key_fingerprints)s::text[], %(lease_nos)s::int[])
       AS item (job, dispatch_no, attempt, model, key_fingerprint, lease_no)
  JOIN job ON job.id = item.job
  JOIN run ON run.id = job.run
  LEFT JOIN trial ON trial.id = job.trial
  LEFT JOIN judging ON judging.id = job.judging
  JOIN worker ON worker.name = %(worker)s
  WHERE job.state = 'running' AND job.worker = %(worker)s AND job.dispatch_no = item.dispatch_no
    AND job.attempt = item.attempt - 1 AND run.state = 'running'
    AND worker.lease_until > now() AND worker.lease_no = item.lease_no
    AND (trial.state IN ('pending', 'running') OR judging.state = 'pending')
  RETURNING job, attempt),
moved AS (UPDATE job SET attempt = started.attempt FROM started WHERE job.id = started.job RETURNING job.trial)
UPDATE trial SET state = 'running', started_at = now()
FROM moved WHERE trial.id = moved.trial AND trial.state = 'pending';

-- name: read_started
-- Read apart from the INSERT, so that a batch whose COMMIT answer was lost can be sent again. By the dispatch too: a worker
-- that lost a job and got it once more may have started it as the second, and still be asked about the first.
SELECT item.job, item.dispatch_no
FROM unnest(%(jobs)s::bigint[], %(dispatch_nos)s::int[], %(attempts)s::int[]) AS item (job, dispatch_no, attempt)
JOIN job ON job.id = item.job AND job.dispatch_no = item.dispatch_no
JOIN call ON call.job = item.job AND call.attempt = item.attempt
WHERE call.worker = %(worker)s AND call.status = 'started';

-- name: settle_calls
-- The call gets its outcome (once; `unknown` may still become `ok` or `error`), the job its next state, the tally
-- its sums. A late answer is taken from `pending` and `queued` too; in any other state only the call row changes.
-- A call is started as its turn 1. The further turns of an external agent's run come with its outcome, each as a row, and
-- only where that row gets it: a batch that is sent again adds none.
WITH item AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset(%(items)s) AS item (
    job bigint, attempt int, dispatch_no int, status text, error text, message text, content text, tool_calls jsonb, usage jsonb,
    input_tokens int, output_tokens int, total_tokens int, cached_input_tokens int, reasoning_tokens int,
    cost_usd float8, http_status int, response_id text, finish_reason text, latency_ms int, first_byte_ms int,
    next_state text, delay_s float8, failures int, throttled boolean, retry_reason text,
    once boolean, later_turns jsonb)),
before AS MATERIALIZED (
  SELECT call.job, call.attempt, call.run, call.status, call.input_tokens, call.output_tokens, call.cost_usd
  FROM item JOIN call ON call.job = item.job AND call.attempt = item.attempt AND call.turn = 1
  WHERE call.status = 'started' OR (call.status = 'unknown' AND item.status <> 'unknown')
  ORDER BY call.job, call.attempt
  FOR NO KEY UPDATE OF call),
settled AS (
  UPDATE call
  SET status = item.status, error = item.error, message = item.message, content = item.content,
      tool_calls = item.tool_calls, usage = item.usage,
      input_tokens = item.input_tokens, output_tokens = item.output_tokens, total_tokens = item.total_tokens,
      cached_input_tokens = item.cached_input_tokens, reasoning_tokens = item.reasoning_tokens,
      cost_usd = item.cost_usd, http_status = item.http_status, response_id = item.response_id,
      finish_reason = item.finish_reason, latency_ms = item.latency_ms, first_byte_ms = item.first_byte_ms,
      finished_at = clock_timestamp()
  FROM item, before
  WHERE call.job = item.job AND call.attempt = item.attempt AND call.turn = 1
    AND before.job = call.job AND before.attempt = call.attempt
  RETURNING call.*, before.status AS was, before.input_tokens AS input_was, before.output_tokens AS output_was,
            before.cost_usd AS cost_was),
turned AS (
  -- The bound of the whole run stands in its first row.
  INSERT INTO call (job, attempt, turn, run, model, status, error, message, purpose, retry_reason, reserve_tokens,
                    reserve_cost_usd, input_tokens, output_tokens, total_tokens, cached_input_tokens,
                    reasoning_tokens, usage, cost_usd, content, http_status, response_id, finish_reason, worker,
                    key_fingerprint, started_at, finished_at)
  SELECT settled.job, settled.attempt, later.turn, settled.run, settled.model, settled.status, settled.error,
         settled.message, settled.purpose, settled.retry_reason, 0, 0, later.input_tokens, later.output_tokens,
         later.total_tokens, later.cached_input_tokens, later.reasoning_tokens, later.usage, later.cost_usd,
         later.content, settled.http_status, settled.response_id, settled.finish_reason, settled.worker,
         settled.key_fingerprint, settled.started_at, settled.finished_at
  FROM settled JOIN item ON item.job = settled.job AND item.attempt = settled.attempt
  CROSS JOIN LATERAL jsonb_to_recordset(item.later_turns) AS later (
    turn int, input_tokens int, output_tokens int, total_tokens int, cached_input_tokens int, reasoning_tokens int,
    usage jsonb, cost_usd float8, content text)
  RETURNING *),
granted AS MATERIALIZED (
  -- `once`: the trial's one repetition, which the first of its calls gets that asks for it. Judgings have none.
  SELECT DISTINCT ON (job.trial) job.id, job.trial, item.error
  FROM item
  JOIN settled ON settled.job = item.job AND settled.attempt = item.attempt
  JOIN job ON job.id = item.job AND job.dispatch_no = item.dispatch_no AND job.attempt = item.attempt
  JOIN trial ON trial.id = job.trial AND trial.repetition IS NULL AND trial.state IN ('pending', 'running')
  WHERE item.once AND job.state = 'running'
  ORDER BY job.trial, job.id),
used_up AS (UPDATE trial SET repetition = granted.error FROM granted WHERE trial.id = granted.trial),
moved AS (
  UPDATE job
  SET state = CASE WHEN item.next_state = 'pending' AND (run.state = 'cancelled' OR EXISTS (
                          SELECT FROM trial WHERE trial.id = job.trial AND trial.state NOT IN ('pending', 'running'))
                        OR EXISTS (SELECT FROM judging WHERE judging.id = job.judging AND judging.state <> 'pending'))
                   THEN 'cancelled'
                   WHEN item.once AND NOT EXISTS (SELECT FROM granted WHERE granted.id = job.id) THEN 'failed'
                   ELSE item.next_state END,
      answer_attempt = CASE item.next_state WHEN 'ok' THEN item.attempt END,
      failures = job.failures + item.failures,
      throttled_since = CASE WHEN item.throttled THEN coalesce(job.throttled_since, now()) END,
      retry_reason = item.retry_reason,
      error = item.error,
      worker = NULL,
      not_before = CASE WHEN item.next_state = 'pending' THEN now() + make_interval(secs => item.delay_s)
                        ELSE job.not_before END
  FROM item, settled, run
  WHERE job.id = item.job AND settled.job = item.job AND settled.attempt = item.attempt AND run.id = job.run
    AND ((job.state = 'running' AND job.dispatch_no = item.dispatch_no AND job.attempt = item.attempt)
         OR (item.next_state = 'ok' AND job.state IN ('pending', 'queued')))
  RETURNING job.id)
INSERT INTO tally (run, owner, ok_calls, error_calls, unknown_calls, input_tokens, output_tokens, cost_usd,
                   unknown_usage_calls, held_tokens, held_cost_usd)
SELECT run, %(owner)s,
       count(*) FILTER (WHERE status = 'ok'), count(*) FILTER (WHERE status = 'error'),
       count(*) FILTER (WHERE status = 'unknown') - count(*) FILTER (WHERE was = 'unknown'),
       -- An outcome that was unknown may have told its usage: it is told anew.
       coalesce(sum(input_tokens), 0) - coalesce(sum(input_was), 0),
       coalesce(sum(output_tokens), 0) - coalesce(sum(output_was), 0),
       coalesce(sum(cost_usd), 0) - coalesce(sum(cost_was), 0),
       count(*) FILTER (WHERE status = 'ok' AND total_tokens IS NULL),
       -- What may have been billed without our knowing how much stays reserved by its bound.
       coalesce(sum(reserve_tokens) FILTER (WHERE unsaid), 0)
         - coalesce(sum(reserve_tokens) FILTER (WHERE was = 'unknown'), 0),
       coalesce(sum(reserve_cost_usd) FILTER (WHERE unsaid), 0)
         - coalesce(sum(reserve_cost_usd) FILTER (WHERE was = 'unknown'), 0)
FROM (SELECT *, status = 'unknown' OR ((input_tokens IS NULL OR output_tokens IS NULL)
                                         AND (status = 'ok' OR http_status BETWEEN 200 AND 299)) AS unsaid
      FROM (SELECT * FROM settled UNION ALL SELECT *, NULL, NULL, NULL, NULL FROM turned) AS settled) AS settled
GROUP BY run
ON CONFLICT (run, owner) DO UPDATE
SET ok_calls = tally.ok_calls + EXCLUDED.ok_calls,
    error_calls = tally.error_calls + EXCLUDED.error_calls,
    unknown_calls = tally.unknown_calls + EXCLUDED.unknown_calls,
    input_tokens = tally.input_tokens + EXCLUDED.input_tokens,
    output_tokens = tally.output_tokens + EXCLUDED.output_tokens,
    cost_usd = tally.cost_usd + EXCLUDED.cost_usd,
    unknown_usage_calls = tally.unknown_usage_calls + EXCLUDED.unknown_usage_calls,
    held_tokens = tally.held_tokens + EXCLUDED.held_tokens,
    held_cost_usd = tally.held_cost_usd + EXCLUDED.held_cost_usd;

-- name: keep_files
-- What an external agent has written, of the attempt whose answer is used: in the transaction that settles it.
INSERT INTO trial_file (trial, try, name, content)
SELECT job.trial, job.try, item.name, item.content
FROM unnest(%(jobs)s::bigint[], %(attempts)s::int[], %(names)s::text[], %(contents)s::bytea[])
  AS item (job, attempt, name, content)
JOIN job ON job.id = item.job AND job.answer_attempt = item.attempt
WHERE job.trial IS NOT NULL
ON CONFLICT (trial, try, name) DO UPDATE SET content = EXCLUDED.content;

-- name: mark_due
-- A trial's next step can be taken when nothing of it is open, or when one of its jobs has failed. The caller holds
-- the trials' locks, so of two last samples that settle at once the second one sees the first. Whoever took the step
-- of an earlier version has lost it, and so its lease.
UPDATE trial SET due = true, version = version + 1, lease_until = NULL
WHERE id = ANY(%(trials)s) AND state IN ('pending', 'running')
  AND (NOT EXISTS (SELECT FROM job WHERE job.trial = trial.id AND job.state IN ('pending', 'queued', 'running'))
       OR EXISTS (SELECT FROM job WHERE job.trial = trial.id AND job.try = trial.try AND job.state = 'failed'))
RETURNING id;

-- name: prove_lane
UPDATE run_lane SET proven_at = now() WHERE run = %(run)s AND lane = %(lane)s AND proven_at IS NULL;

-- name: hold_lane
-- A long cool-down is kept here, where a flushed broker cannot lose it; holds only grow.
UPDATE lane SET hold_until = now() + make_interval(secs => %(hold_s)s), hold_reason = %(reason)s
WHERE id = %(lane)s AND (hold_until IS NULL OR hold_until < now() + make_interval(secs => %(hold_s)s));
