-- Dispatching: pending -> queued, one dispatcher at a time. The caller commits first and publishes then.

-- name: try_dispatcher_lock
SELECT pg_try_advisory_lock(%(key)s) AS held;

-- name: open_lanes
-- Every lane of a running run that may be given jobs now, with how many it has out and what the run's budget still
-- allows (NULL: no budget): spent, held for unknown outcomes and reserved by what is out, in one snapshot.
SELECT run.id AS run, lane.id AS lane, run_lane.proven_at IS NOT NULL AS proven, out.queued, out.running,
       (run.budget ->> 'run_tokens')::bigint - spent.tokens - out_of_run.tokens AS tokens_left,
       (run.budget ->> 'run_cost_usd')::float8 - spent.cost_usd - out_of_run.cost_usd AS cost_left_usd,
       (run.budget ->> 'trial_tokens')::bigint AS trial_tokens,
       (run.budget ->> 'trial_cost_usd')::float8 AS trial_cost_usd
FROM (
  -- OFFSET keeps this apart: an experiment of ten thousand tasks is unpacked once here, not once for each amount.
  SELECT id, experiment -> 'budget' AS budget FROM run WHERE state = 'running' OFFSET 0) AS run
JOIN run_lane ON run_lane.run = run.id
JOIN lane ON lane.id = run_lane.lane
CROSS JOIN LATERAL (
  -- Each by its own small index: of a million jobs only what is out is looked at.
  SELECT (SELECT count(*) FROM job WHERE job.run = run.id AND job.lane = lane.id AND job.state = 'queued') AS queued,
         (SELECT count(*) FROM job WHERE job.run = run.id AND job.lane = lane.id AND job.state = 'running') AS running
  ) AS out
CROSS JOIN LATERAL (
  SELECT coalesce(sum(reserve_tokens), 0)::bigint AS tokens, coalesce(sum(reserve_cost_usd), 0) AS cost_usd
  FROM (SELECT reserve_tokens, reserve_cost_usd FROM job WHERE job.run = run.id AND job.state = 'queued'
        UNION ALL
        SELECT reserve_tokens, reserve_cost_usd FROM job WHERE job.run = run.id AND job.state = 'running') AS job
  ) AS out_of_run
CROSS JOIN LATERAL (
  SELECT coalesce(sum(input_tokens + output_tokens + held_tokens), 0)::bigint AS tokens,
         coalesce(sum(cost_usd + held_cost_usd), 0) AS cost_usd
  FROM tally WHERE tally.run = run.id) AS spent
WHERE (lane.hold_until IS NULL OR lane.hold_until <= now())
ORDER BY run.id, lane.id;

-- name: dispatch
-- pending -> queued, as many as the budgets allow: of each trial what fits beside what it has spent and has out, of
-- the run what `tokens_left` and `cost_left_usd` say. Later rounds first, then in the order of planning.
WITH steady AS (SELECT id FROM run WHERE id = %(run)s AND state = 'running' FOR SHARE),
candidate AS MATERIALIZED (
  SELECT job.id, job.trial, job.not_before, job.reserve_tokens, job.reserve_cost_usd
  FROM job JOIN steady ON steady.id = job.run
  WHERE job.run = %(run)s AND job.lane = %(lane)s AND job.state = 'pending' AND job.not_before <= now()
  ORDER BY job.not_before, job.id
  LIMIT %(most)s
  FOR UPDATE OF job SKIP LOCKED),
committed AS MATERIALIZED (
  SELECT touched.trial, used.tokens, used.cost_usd
  FROM (SELECT DISTINCT trial FROM candidate) AS touched
  CROSS JOIN LATERAL trial_committed(touched.trial) AS used
  WHERE %(trials_have_budget)s),
within AS (
  SELECT candidate.*,
         committed.tokens + sum(reserve_tokens) OVER own AS trial_tokens,
         committed.cost_usd + sum(reserve_cost_usd) OVER own AS trial_cost_usd
  FROM candidate LEFT JOIN committed ON committed.trial = candidate.trial
  WINDOW own AS (PARTITION BY candidate.trial ORDER BY not_before, id)),
summed AS (
  SELECT id, not_before, sum(reserve_tokens) OVER upto AS tokens, sum(reserve_cost_usd) OVER upto AS cost_usd
  FROM within
  WHERE trial IS NULL OR ((%(trial_tokens)s::bigint IS NULL OR trial_tokens <= %(trial_tokens)s)
                          AND (%(trial_cost_usd)s::float8 IS NULL OR trial_cost_usd <= %(trial_cost_usd)s))
  WINDOW upto AS (ORDER BY not_before, id)),
queued AS (
  UPDATE job SET state = 'queued', dispatch_no = dispatch_no + 1, dispatched_at = now()
  FROM summed
  WHERE job.id = summed.id
    AND (%(tokens_left)s::bigint IS NULL OR summed.tokens <= %(tokens_left)s)
    AND (%(cost_left_usd)s::float8 IS NULL OR summed.cost_usd <= %(cost_left_usd)s)
  RETURNING job.id, job.dispatch_no, job.dispatched_at, job.reserve_tokens, job.reserve_cost_usd, summed.not_before)
SELECT id, dispatch_no, dispatched_at, reserve_tokens, reserve_cost_usd FROM queued ORDER BY not_before, id;

-- name: trials_over_budget
-- Trials that have nothing out and whose next job does not fit into what their budget leaves.
SELECT DISTINCT waiting.trial
FROM (SELECT job.trial, job.reserve_tokens, job.reserve_cost_usd FROM job
      WHERE job.run = %(run)s AND job.lane = %(lane)s AND job.state = 'pending' AND job.not_before <= now()
        AND job.trial IS NOT NULL
      ORDER BY job.not_before, job.id LIMIT %(most)s) AS waiting
CROSS JOIN LATERAL trial_committed(waiting.trial) AS used
WHERE NOT used.in_flight
  AND (used.tokens + waiting.reserve_tokens > %(trial_tokens)s::bigint
       OR used.cost_usd + waiting.reserve_cost_usd > %(trial_cost_usd)s::float8)
ORDER BY waiting.trial;

-- name: exhaust_trials
-- What they have spent stays in the ledger; their open jobs are cancelled.
WITH exhausted AS (
  UPDATE trial SET state = 'over_budget', finished_at = now(), due = false, lease_until = NULL, version = version + 1,
                   reason = 'Its budget does not cover its next call. Raise [budget] in the experiment file.'
  WHERE id = ANY(%(trials)s) AND state IN ('pending', 'running')
  RETURNING id),
open AS MATERIALIZED (
  SELECT job.id FROM job JOIN exhausted ON exhausted.id = job.trial
  WHERE job.state IN ('pending', 'queued') ORDER BY job.id FOR NO KEY UPDATE OF job)
UPDATE job SET state = 'cancelled' FROM open WHERE job.id = open.id;

-- name: stuck_on_budget
-- A run that could go on but for its budget: nothing is out, no lane is held, and no lane's next job fits into what is
-- left.
SELECT NOT EXISTS (SELECT FROM job WHERE run = %(run)s AND state = 'queued')
   AND NOT EXISTS (SELECT FROM job WHERE run = %(run)s AND state = 'running')
   AND count(*) > 0
   AND bool_and(hold_until IS NULL OR hold_until <= now())
   AND bool_and(coalesce(reserve_tokens > %(tokens_left)s::bigint, false)
                OR coalesce(reserve_cost_usd > %(cost_left_usd)s::float8, false)) AS stuck
FROM run_lane
JOIN lane ON lane.id = run_lane.lane
CROSS JOIN LATERAL (
  SELECT reserve_tokens, reserve_cost_usd FROM job
  WHERE job.run = run_lane.run AND job.lane = run_lane.lane AND state = 'pending' AND not_before <= now()
  ORDER BY not_before, id LIMIT 1) AS next
WHERE run_lane.run = %(run)s;

-- name: finish_runs
-- A run is finished when none of its trials is open, and what its judges were to be asked has been.
-- An open trial is looked for first, and by its index: this is asked many times a second, and a join would read all open
-- trials each time. The order by a run that is bounded from both sides is one that only the index can give at once.
UPDATE run SET state = 'finished', reason = NULL, finished_at = now()
WHERE state = 'running'
  AND CASE WHEN (SELECT trial.run FROM trial
                 WHERE trial.run BETWEEN run.id AND run.id AND trial.state IN ('pending', 'running')
                 ORDER BY trial.run LIMIT 1) IS NOT NULL THEN false
           ELSE (judgings IS NOT NULL OR jsonb_array_length(coalesce(experiment -> 'judges', '[]')) = 0)
                AND NOT EXISTS (SELECT FROM judging WHERE judging.run = run.id AND judging.state = 'pending') END
RETURNING run_id;
