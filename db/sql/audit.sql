-- Auditing a run: sums of its calls by two ways, its jobs one by one, what a bill would have to say. Nothing here
-- changes anything, and each statement reads a run of a million calls once.

-- name: audit_direct
-- From the table itself: what every view has to add up to.
SELECT status, purpose <> 'first' AS retry, count(*) AS calls, sum(input_tokens)::bigint AS input_tokens,
       sum(output_tokens)::bigint AS output_tokens, sum(total_tokens)::bigint AS total_tokens, sum(cost_usd) AS cost_usd,
       sum(reserve_tokens) FILTER (WHERE unsaid)::bigint AS held_tokens,
       count(*) FILTER (WHERE status = 'ok' AND total_tokens IS NULL) AS silent_calls,
       min(started_at) AS first_at, max(started_at) AS last_at
FROM (SELECT *, status = 'unknown' OR ((input_tokens IS NULL OR output_tokens IS NULL)
                                        AND (status = 'ok' OR status = 'error' AND http_status BETWEEN 200 AND 299))
               AS unsaid
      FROM call WHERE run = %(run)s) AS call
GROUP BY status, purpose <> 'first';

-- name: audit_direct_judges
SELECT count(*) AS calls, sum(call.input_tokens)::bigint AS input_tokens, sum(call.output_tokens)::bigint AS output_tokens,
       sum(call.total_tokens)::bigint AS total_tokens, sum(call.cost_usd) AS cost_usd
FROM judging JOIN job ON job.judging = judging.id JOIN call ON call.job = job.id
WHERE judging.run = %(run)s;

-- name: audit_groups
-- The calls by all that is listed of them; the lists are sums over it. An attempt is counted by its first turn.
SELECT kind, model, status, error, http_status, purpose, retry_reason, part, count(*) AS calls,
       sum(input_tokens)::bigint AS input_tokens, sum(output_tokens)::bigint AS output_tokens,
       sum(total_tokens)::bigint AS total_tokens, sum(cost_usd) AS cost_usd,
       count(*) FILTER (WHERE unknown_usage) AS unknown_usage_calls,
       count(*) FILTER (WHERE unknown_cost) AS unknown_cost_calls,
       count(*) FILTER (WHERE turn = 1) AS attempts,
       count(*) FILTER (WHERE turn = 1 AND used) AS answers,
       count(*) FILTER (WHERE attempt NOT BETWEEN 1 AND attempts) AS strays
FROM audit_calls WHERE run = %(run)s
GROUP BY kind, model, status, error, http_status, purpose, retry_reason, part;

-- name: audit_jobs
-- What the jobs say of their calls, and whether rounds and samples are complete.
WITH own AS MATERIALIZED (
  SELECT job.trial, NULL::bigint AS judging, job.try, job.round, max(job.sample) AS last_sample,
         count(*) AS jobs, count(*) FILTER (WHERE job.state = 'ok') AS ok_jobs,
         count(*) FILTER (WHERE (job.state = 'ok') <> (answer_attempt IS NOT NULL)) AS misfits,
         sum(job.attempt) AS attempts, min(job.id) AS id
  FROM trial JOIN job ON job.trial = trial.id WHERE trial.run = %(run)s GROUP BY job.trial, job.try, job.round
  UNION ALL
  SELECT NULL, job.judging, 1, 1, max(job.sample), count(*), count(*) FILTER (WHERE job.state = 'ok'),
         count(*) FILTER (WHERE (job.state = 'ok') <> (answer_attempt IS NOT NULL)), sum(job.attempt), min(job.id)
  FROM judging JOIN job ON job.judging = judging.id WHERE judging.run = %(run)s GROUP BY job.judging),
holes AS (
  SELECT id FROM own WHERE jobs <> last_sample
  UNION ALL
  SELECT min(id) FROM own WHERE trial IS NOT NULL GROUP BY trial, try HAVING count(*) <> max(round))
SELECT coalesce(sum(jobs), 0)::bigint AS jobs, coalesce(sum(ok_jobs), 0)::bigint AS ok_jobs,
       coalesce(sum(misfits), 0)::bigint AS misfits, coalesce(sum(attempts), 0)::bigint AS attempts,
       (SELECT count(*) FROM holes) AS holes,
       ARRAY(SELECT id FROM holes ORDER BY id LIMIT %(most)s) AS hole_jobs
FROM own;

-- name: audit_uneven_jobs
-- Each job with its calls: the ones that the sums have shown to be there.
SELECT job.id, (job.state = 'ok') <> (job.answer_attempt IS NOT NULL)
         OR job.state = 'ok' AND 1 <> count(*) FILTER (WHERE call.attempt = job.answer_attempt AND call.status = 'ok'
                                                         AND call.turn = 1) AS unanswered
FROM (SELECT job.id FROM trial JOIN job ON job.trial = trial.id WHERE trial.run = %(run)s
      UNION ALL
      SELECT job.id FROM judging JOIN job ON job.judging = judging.id WHERE judging.run = %(run)s) AS own
JOIN job ON job.id = own.id
LEFT JOIN call ON call.job = job.id
GROUP BY job.id
HAVING (job.state = 'ok') <> (job.answer_attempt IS NOT NULL)
    OR job.state = 'ok' AND 1 <> count(*) FILTER (WHERE call.attempt = job.answer_attempt AND call.status = 'ok'
                                                    AND call.turn = 1)
    OR job.attempt <> count(*) FILTER (WHERE call.turn = 1) OR job.attempt <> coalesce(max(call.attempt), 0)
ORDER BY job.id;

-- name: audit_tasks
-- The most expensive ones; judging is no task's cost.
SELECT task.task_id, spent.trials, spent.calls, spent.total_tokens, spent.cost_usd, spent.unknown_usage_calls
FROM (
  SELECT trial.task, count(*) AS trials, sum(used.calls)::bigint AS calls, sum(used.total_tokens)::bigint AS total_tokens,
         sum(used.cost_usd) AS cost_usd, sum(used.unknown_usage_calls)::bigint AS unknown_usage_calls
  FROM (SELECT trial, count(*) AS calls, sum(total_tokens) AS total_tokens, sum(cost_usd) AS cost_usd,
               count(*) FILTER (WHERE unknown_usage) AS unknown_usage_calls
        FROM audit_calls WHERE run = %(run)s AND trial IS NOT NULL GROUP BY trial) AS used
  JOIN trial ON trial.id = used.trial
  GROUP BY trial.task
  ORDER BY sum(used.cost_usd) DESC NULLS LAST, sum(used.total_tokens) DESC NULLS LAST, trial.task
  LIMIT %(most)s) AS spent
JOIN task ON task.id = spent.task
ORDER BY spent.cost_usd DESC NULLS LAST, spent.total_tokens DESC NULLS LAST, spent.task;

-- name: audit_name_jobs
SELECT task.task_id, coalesce(strategy.name, 'judge ' || judging.judge) AS strategy,
       coalesce(trial.repeat, judging.repeat) AS repeat, job.try, job.round, job.sample, job.state
FROM job
LEFT JOIN trial ON trial.id = job.trial
LEFT JOIN strategy ON strategy.id = trial.strategy
LEFT JOIN judging ON judging.id = job.judging
JOIN task ON task.id = coalesce(trial.task, judging.task)
WHERE job.id = ANY(%(jobs)s) ORDER BY job.id;

-- name: audit_list_calls
-- Calls of one status whose answer is not used.
SELECT task_id, strategy, repeat, "try", round, sample, attempt, model, error, total_tokens, cost_usd, reserve_tokens,
       response_id, worker, started_at
FROM audit_calls WHERE run = %(run)s AND status = %(status)s AND NOT used
ORDER BY started_at, job, attempt LIMIT %(most)s;

-- name: audit_view_sums
-- Of one view, whose name is filled in.
SELECT coalesce(sum(calls), 0)::bigint AS calls, sum(sum_input_tokens)::bigint AS input_tokens,
       sum(sum_output_tokens)::bigint AS output_tokens, sum(sum_total_tokens)::bigint AS total_tokens,
       sum(sum_cost_usd) AS cost_usd
FROM %(view)s WHERE run = %(run)s;

-- name: audit_billable
-- By day in a time zone, model and key: what a bill should say, and what it may. `late`: it ended on a later day. An
-- error without a status and without usage was never sent. A total without its parts bounds both of them.
SELECT day, model, key_fingerprint, what, late, count(*) AS calls, coalesce(sum(input_tokens), 0)::bigint AS input_tokens,
       coalesce(sum(output_tokens), 0)::bigint AS output_tokens, coalesce(sum(cost_usd), 0)::float8 AS cost_usd,
       count(*) FILTER (WHERE cost_usd IS NULL) AS unpriced_calls, sum(bound_tokens)::bigint AS bound_tokens,
       CASE WHEN count(bound_cost_usd) = count(*) THEN sum(bound_cost_usd) END::float8 AS bound_cost_usd,
       max(bound_tokens)::bigint AS largest_tokens,
       CASE WHEN count(bound_cost_usd) = count(*) THEN max(bound_cost_usd) END::float8 AS largest_cost_usd
FROM (
  SELECT model, key_fingerprint, input_tokens, output_tokens, cost_usd,
         coalesce(total_tokens, reserve_tokens) AS bound_tokens, coalesce(cost_usd, reserve_cost_usd) AS bound_cost_usd,
         (started_at AT TIME ZONE %(timezone)s)::date AS day,
         (started_at AT TIME ZONE %(timezone)s)::date
           < (coalesce(finished_at, started_at) AT TIME ZONE %(timezone)s)::date AS late,
         CASE WHEN unknown_usage OR status = 'started' THEN 'unsaid'
              WHEN input_tokens IS NULL OR output_tokens IS NULL
              THEN CASE WHEN total_tokens IS NOT NULL THEN 'unsaid' WHEN http_status IS NOT NULL THEN 'failed' END
              WHEN NOT used THEN CASE status WHEN 'ok' THEN 'unused' ELSE 'error' END
              WHEN purpose <> 'first' THEN 'retry'
              ELSE 'used' END AS what
  FROM audit_calls WHERE run = %(run)s) AS call
WHERE what IS NOT NULL
GROUP BY day, model, key_fingerprint, what, late;

-- name: audit_neighbours
-- Other runs that may stand on the same bill: at work between these times with one of these models, and how many there
-- are in all. Imported ones are no calls of ours; a simulated run is on no bill of a real one.
SELECT run.id AS run, run.run_id, count(*) OVER () AS found
FROM run JOIN run AS own ON own.id = %(run)s AND own.simulated = run.simulated
WHERE run.id <> %(run)s AND run.created_at < %(until)s AND coalesce(run.finished_at, now()) >= %(since)s
  AND NOT run.experiment ? 'imported'
  AND EXISTS (SELECT FROM call WHERE call.run = run.id AND call.model = ANY(%(models)s))
ORDER BY run.id DESC LIMIT %(most)s;
