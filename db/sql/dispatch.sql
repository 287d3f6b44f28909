-- Dispatching: pending -> queued, one dispatcher at a time. The caller commits first and publishes then.

-- name: try_dispatcher_lock
SELECT pg_try_advisory_lock(%(key)s) AS held;

-- name: open_lanes
-- Every lane of a running run that may be given jobs now, with how many it has out and what its budget still allows
-- (NULL: no budget). Spent, held for unknown outcomes, and reserved by what is out: all in one snapshot.
SELECT run.id AS run, lane.id AS lane, run_lane.proven_at IS NOT NULL AS proven, out.queued, out.running,
       (run.experiment #>> '{budget,run_tokens}')::bigint - spent.tokens - out_of_run.tokens AS tokens_left,
       (run.experiment #>> '{budget,run_cost_usd}')::float8 - spent.cost_usd - out_of_run.cost_usd AS cost_left_usd
FROM run
JOIN run_lane ON run_lane.run = run.id
JOIN lane ON lane.id = run_lane.lane
CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE state = 'queued') AS queued, count(*) FILTER (WHERE state = 'running') AS running
  FROM job WHERE job.run = run.id AND job.lane = lane.id AND job.state IN ('queued', 'running')) AS out
CROSS JOIN LATERAL (
  SELECT coalesce(sum(reserve_tokens), 0)::bigint AS tokens, coalesce(sum(reserve_cost_usd), 0) AS cost_usd
  FROM job WHERE job.run = run.id AND job.state IN ('queued', 'running')) AS out_of_run
CROSS JOIN LATERAL (
  SELECT coalesce(sum(input_tokens + output_tokens + held_tokens), 0)::bigint AS tokens,
         coalesce(sum(cost_usd + held_cost_usd), 0) AS cost_usd
  FROM tally WHERE tally.run = run.id) AS spent
WHERE run.state = 'running' AND (lane.hold_until IS NULL OR lane.hold_until <= now())
ORDER BY run.id, lane.id;

-- name: dispatch
-- pending -> queued, as many as the budget allows; later rounds first, then in the order of planning.
WITH steady AS (SELECT id FROM run WHERE id = %(run)s AND state = 'running' FOR SHARE),
candidate AS MATERIALIZED (
  SELECT job.id, job.not_before, job.reserve_tokens, job.reserve_cost_usd
  FROM job JOIN steady ON steady.id = job.run
  WHERE job.run = %(run)s AND job.lane = %(lane)s AND job.state = 'pending' AND job.not_before <= now()
  ORDER BY job.not_before, job.id
  LIMIT %(most)s
  FOR UPDATE OF job SKIP LOCKED),
summed AS (
  SELECT id, not_before, sum(reserve_tokens) OVER upto AS tokens, sum(reserve_cost_usd) OVER upto AS cost_usd
  FROM candidate WINDOW upto AS (ORDER BY not_before, id)),
queued AS (
  UPDATE job SET state = 'queued', dispatch_no = dispatch_no + 1, dispatched_at = now()
  FROM summed
  WHERE job.id = summed.id
    AND (%(tokens_left)s::bigint IS NULL OR summed.tokens <= %(tokens_left)s)
    AND (%(cost_left_usd)s::float8 IS NULL OR summed.cost_usd <= %(cost_left_usd)s)
  RETURNING job.id, job.dispatch_no, job.dispatched_at, summed.not_before)
SELECT id, dispatch_no, dispatched_at FROM queued ORDER BY not_before, id;

-- name: stuck_on_budget
-- A run that could go on but for its budget: nothing is out, something is pending that may go now.
SELECT EXISTS (
  SELECT FROM job JOIN lane ON lane.id = job.lane
  WHERE job.run = %(run)s AND job.state = 'pending' AND job.not_before <= now())
 AND NOT EXISTS (SELECT FROM job WHERE run = %(run)s AND state IN ('queued', 'running')) AS stuck;

-- name: finish_runs
-- A run is finished when none of its trials is open.
UPDATE run SET state = 'finished', reason = NULL, finished_at = now()
WHERE state = 'running'
  AND NOT EXISTS (SELECT FROM trial WHERE trial.run = run.id AND trial.state IN ('pending', 'running'))
RETURNING run_id;
