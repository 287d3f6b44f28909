-- Reaping: what vanished workers and a flushed broker left behind.

-- name: postgres_started
SELECT extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float8 AS up_s;

-- name: lost_workers
-- Locked: a heartbeat that comes late waits, and finds its jobs gone.
SELECT name FROM worker
WHERE lease_until < now()
  AND (EXISTS (SELECT FROM job WHERE job.worker = worker.name AND job.state = 'running')
       OR EXISTS (SELECT FROM call WHERE call.worker = worker.name AND call.status = 'started'))
ORDER BY name FOR UPDATE SKIP LOCKED;

-- name: jobs_of_lost_workers
SELECT job.id AS job, job.trial, job.judging FROM job
WHERE job.worker = ANY(%(workers)s) AND job.state = 'running' ORDER BY job.id;

-- name: started_calls_of_lost_workers
SELECT call.job FROM call WHERE call.worker = ANY(%(workers)s) AND call.status = 'started' ORDER BY call.job;

-- name: release_lost
-- Calls that were started may have been answered and paid: `unknown`, and their bound stays reserved.
WITH lost AS (
  UPDATE call SET status = 'unknown', error = 'lost_worker', finished_at = clock_timestamp(),
                  message = 'The worker vanished while the call was in flight.'
  WHERE call.worker = ANY(%(workers)s) AND call.status = 'started'
  RETURNING job, attempt, run, reserve_tokens, reserve_cost_usd),
tallied AS (
  INSERT INTO tally (run, owner, unknown_calls, held_tokens, held_cost_usd)
  SELECT run, 'reaper', count(*), sum(reserve_tokens), coalesce(sum(reserve_cost_usd), 0) FROM lost GROUP BY run
  ON CONFLICT (run, owner) DO UPDATE
  SET unknown_calls = tally.unknown_calls + EXCLUDED.unknown_calls,
      held_tokens = tally.held_tokens + EXCLUDED.held_tokens,
      held_cost_usd = tally.held_cost_usd + EXCLUDED.held_cost_usd)
UPDATE job
SET state = CASE WHEN run.state = 'cancelled' OR EXISTS (
                   SELECT FROM trial WHERE trial.id = job.trial AND trial.state NOT IN ('pending', 'running'))
                   OR EXISTS (SELECT FROM judging WHERE judging.id = job.judging AND judging.state <> 'pending')
                 THEN 'cancelled'
                 WHEN job.lost_leases + 1 >= (run.experiment #>> '{retries,max_lost_leases}')::int THEN 'failed'
                 ELSE 'pending' END,
    lost_leases = job.lost_leases + 1,
    -- A call that was not started yet is no lost call: its reason to be a retry, if any, stays.
    retry_reason = CASE WHEN EXISTS (SELECT FROM lost WHERE lost.job = job.id) THEN 'unknown_outcome'
                        ELSE job.retry_reason END,
    error = 'lost_worker',
    worker = NULL
FROM run
WHERE job.worker = ANY(%(workers)s) AND job.state = 'running' AND run.id = job.run
RETURNING job.id, job.state;

-- name: forget_workers
-- A heartbeat that comes after all begins a lease with a number of its own.
DELETE FROM worker
WHERE lease_until < now() - interval '1 day'
  AND NOT EXISTS (SELECT FROM job WHERE job.worker = worker.name AND job.state = 'running')
  AND NOT EXISTS (SELECT FROM call WHERE call.worker = worker.name AND call.status = 'started');

-- name: unqueue_lost
-- Jobs whose message is gone: dispatched before `before` and still queued.
WITH lost AS MATERIALIZED (
  SELECT id FROM job WHERE state = 'queued' AND dispatched_at < %(before)s
  ORDER BY id LIMIT 10000 FOR UPDATE SKIP LOCKED)
UPDATE job SET state = 'pending' FROM lost WHERE job.id = lost.id
RETURNING job.id;

-- name: tickets_of_nobody
-- Of these tickets of the limiter those whose job is not at work under that dispatch any more.
SELECT ticket FROM unnest(%(tickets)s::text[], %(jobs)s::bigint[], %(dispatch_nos)s::bigint[])
  AS held (ticket, job, dispatch_no)
WHERE NOT EXISTS (
  SELECT FROM job WHERE job.id = held.job AND job.dispatch_no = held.dispatch_no AND job.state = 'running');
