-- Reading a run: progress, trials, strategies. Nothing here changes anything.

-- name: trial_counts
-- Most are ok: counting all and taking off the others takes a third of the time that grouping a hundred thousand does.
WITH others AS (
  SELECT state, count(*) AS trials FROM trial
  WHERE run = %(run)s AND (state < 'ok' OR state > 'ok') GROUP BY state)
SELECT state, trials FROM others
UNION ALL
SELECT 'ok', trials FROM (
  SELECT count(*) - (SELECT coalesce(sum(trials), 0)::bigint FROM others) AS trials
  FROM trial WHERE run = %(run)s) AS rest
WHERE trials > 0
ORDER BY state;

-- name: open_job_counts
-- One index for each state, so that what has ended, which may be a million jobs, is not read; with what their bounds
-- reserve.
SELECT 'pending' AS state, count(*) AS jobs, NULL::bigint AS reserve_tokens, NULL::float8 AS reserve_cost_usd
FROM job WHERE run = %(run)s AND state = 'pending'
UNION ALL
SELECT 'queued', count(*), sum(reserve_tokens)::bigint, sum(reserve_cost_usd)
FROM job WHERE run = %(run)s AND state = 'queued'
UNION ALL
SELECT 'running', count(*), sum(reserve_tokens)::bigint, sum(reserve_cost_usd)
FROM job WHERE run = %(run)s AND state = 'running';

-- name: tally_sums
SELECT coalesce(sum(ok_calls), 0)::bigint AS ok_calls, coalesce(sum(error_calls), 0)::bigint AS error_calls,
       coalesce(sum(unknown_calls), 0)::bigint AS unknown_calls,
       coalesce(sum(input_tokens), 0)::bigint AS input_tokens,
       coalesce(sum(output_tokens), 0)::bigint AS output_tokens,
       coalesce(sum(unknown_usage_calls), 0)::bigint AS unknown_usage_calls,
       coalesce(sum(cost_usd), 0) AS cost_usd, coalesce(sum(held_tokens), 0)::bigint AS held_tokens,
       coalesce(sum(held_cost_usd), 0) AS held_cost_usd
FROM tally WHERE run = %(run)s;

-- name: error_counts
-- By an index of their own: of a million calls few have failed.
SELECT error, count(*) AS calls FROM call WHERE run = %(run)s AND status IN ('error', 'unknown')
GROUP BY error ORDER BY calls DESC, error;

-- name: unpriced_models
SELECT lane.model FROM run_lane JOIN lane ON lane.id = run_lane.lane JOIN run ON run.id = run_lane.run
WHERE run_lane.run = %(run)s AND NOT run.experiment -> 'prices' ? lane.model ORDER BY lane.model;

-- name: waits
-- Why jobs of a run are not sent now, each job once: its lane is held, or it has a time of its own, for its next try or
-- because its worker handed it back: the limiter's wait was long, or there was no key.
SELECT 'hold' AS why, lane.model, lane.hold_until AS until, lane.hold_reason AS reason,
       (SELECT count(*) FROM job WHERE job.run = %(run)s AND job.lane = lane.id AND job.state = 'pending') AS jobs
FROM run_lane JOIN lane ON lane.id = run_lane.lane
WHERE run_lane.run = %(run)s AND lane.hold_until > now()
UNION ALL
SELECT CASE WHEN job.retry_reason IS NULL THEN 'capacity' ELSE 'retry' END, lane.model, min(job.not_before),
       job.retry_reason, count(*)
FROM job JOIN lane ON lane.id = job.lane
WHERE job.run = %(run)s AND job.state = 'pending' AND job.not_before > now()
  AND (lane.hold_until IS NULL OR lane.hold_until <= now())
GROUP BY lane.model, job.retry_reason
ORDER BY until;

-- name: live_workers
SELECT name, in_flight, waiting FROM worker WHERE lease_until > now() ORDER BY name;

-- name: copy_calls
-- What the analysis reads of the ledger; of a million rows each further column costs a second.
SELECT task_id, strategy, repeat, round, sample, attempt, model, input_tokens, output_tokens, total_tokens, latency_ms,
       status, error, "try", turn, kind, purpose, retry_reason, used, http_status, cost_usd
FROM ledger WHERE run = %(run)s;

-- name: read_outcomes
SELECT task.task_id, strategy.name AS strategy, trial.repeat, task.goal, task.category, task.difficulty,
       task.weight AS task_weight, trial.state AS status, trial.confirmed_success,
       coalesce(trial.score, rubric.score) AS score,
       extract(epoch FROM trial.finished_at - trial.started_at)::float8 AS latency_s, trial.answer AS output
FROM trial JOIN task ON task.id = trial.task JOIN strategy ON strategy.id = trial.strategy
LEFT JOIN (
  SELECT (reading.value #>> '{shown,0}')::bigint AS trial, avg((reading.value #>> '{scores,0}')::float8) AS score
  FROM judging CROSS JOIN LATERAL jsonb_array_elements(judging.readings) AS reading (value)
  WHERE judging.run = %(run)s AND judging.kind = 'rubric' AND judging.state <> 'cancelled'
  GROUP BY 1) AS rubric ON rubric.trial = trial.id
WHERE trial.run = %(run)s ORDER BY task.position, strategy.position, trial.repeat;

-- name: read_families
SELECT name AS strategy, family, tier, position FROM strategy WHERE run = %(run)s ORDER BY position;

-- name: ledger_rows
SELECT run_id, source_platform, task_id, strategy, repeat, round, sample, attempt, model, input_tokens,
       output_tokens, total_tokens, cached_input_tokens, reasoning_tokens, latency_ms, status, error, content, try,
       turn, kind, purpose, retry_reason, used, http_status, response_id, first_byte_ms, finish_reason,
       usage, cost_usd, worker, started_at, finished_at, winner, opponent
FROM ledger WHERE run = %(run)s
ORDER BY task_id COLLATE "C", strategy COLLATE "C", repeat, try, round, sample, attempt, turn;

-- name: run_lanes
-- What the limiter calls a lane: workers.context.RunContext.lane_name.
SELECT lane.model, concat_ws(':', lane.endpoint, lane.key_fingerprint, lane.model) AS lane_name
FROM run_lane JOIN lane ON lane.id = run_lane.lane WHERE run_lane.run = %(run)s ORDER BY lane.model;

-- name: calls_in_flight
-- By the running jobs: the ledger of a large run need not be searched. A lost worker's calls get no answer; soon after
-- its lease the reaper ends them, if there is one.
SELECT count(*) AS calls, count(*) FILTER (WHERE worker.lease_until > now() - interval '5 s') AS awaited
FROM job
JOIN call ON call.job = job.id AND call.attempt = job.attempt
LEFT JOIN worker ON worker.name = call.worker
WHERE job.run = %(run)s AND job.state = 'running' AND call.status = 'started';
