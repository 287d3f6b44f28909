-- What a person, or a refusal that dooms all, does to a run.

-- name: pause_run
UPDATE run SET state = 'paused', reason = %(reason)s WHERE id = %(run)s AND state = 'running';

-- name: unqueue_run
-- What waits in the broker goes back; its messages find no queued job and are dropped.
WITH waiting AS MATERIALIZED (
  SELECT id FROM job WHERE run = %(run)s AND state = 'queued' ORDER BY id FOR NO KEY UPDATE)
UPDATE job SET state = 'pending' FROM waiting WHERE job.id = waiting.id;

-- name: resume_run
-- Its lanes must be proven anew: what paused it may still hold.
WITH resumed AS (
  UPDATE run SET state = 'running', reason = NULL WHERE id = %(run)s AND state = 'paused' RETURNING id),
unproven AS (
  UPDATE run_lane SET proven_at = NULL FROM resumed WHERE run_lane.run = resumed.id)
SELECT id FROM resumed;

-- name: open_trials
SELECT id FROM trial WHERE run = %(run)s AND state IN ('pending', 'running') ORDER BY id FOR NO KEY UPDATE;

-- name: cancel_run
UPDATE run SET state = 'cancelled', reason = NULL, finished_at = now()
WHERE id = %(run)s AND state IN ('running', 'paused');

-- name: cancel_trials
UPDATE trial SET state = 'cancelled', finished_at = now(), due = false, lease_until = NULL, version = version + 1
WHERE id = ANY(%(trials)s) AND state IN ('pending', 'running');

-- name: cancel_jobs
WITH open AS MATERIALIZED (
  SELECT id FROM job WHERE run = %(run)s AND state IN ('pending', 'queued') ORDER BY id FOR NO KEY UPDATE)
UPDATE job SET state = 'cancelled' FROM open WHERE job.id = open.id;

-- name: retry_trials
WITH ended AS MATERIALIZED (
  SELECT id FROM trial
  WHERE run = %(run)s AND state = %(state)s
    AND EXISTS (SELECT FROM run WHERE run.id = trial.run AND run.state <> 'cancelled')
  ORDER BY id FOR NO KEY UPDATE)
UPDATE trial SET state = 'running', reason = NULL, answer = NULL, detail = NULL, confirmed_success = NULL,
                 finished_at = NULL, version = version + 1
FROM ended WHERE trial.id = ended.id
RETURNING trial.id;

-- name: renew_trials
-- Where no job of a trial has failed, doing the same jobs again is a new try: its answer was not good enough, or it
-- came to none.
UPDATE trial SET try = try + 1, repetition = 'by_hand'
WHERE id = ANY(%(trials)s) AND NOT EXISTS (
  SELECT FROM job WHERE job.trial = trial.id AND job.try = trial.try AND job.state IN ('failed', 'cancelled'));

-- name: retry_jobs
WITH ended AS MATERIALIZED (
  SELECT job.id FROM job JOIN trial ON trial.id = job.trial AND trial.try = job.try
  WHERE trial.id = ANY(%(trials)s) AND job.state IN ('failed', 'cancelled') ORDER BY job.id FOR NO KEY UPDATE OF job)
UPDATE job SET state = 'pending', failures = 0, lost_leases = 0, throttled_since = NULL, not_before = '-infinity'
FROM ended WHERE job.id = ended.id;

-- name: reopen_run
UPDATE run SET state = 'running', reason = NULL, finished_at = NULL WHERE id = %(run)s AND state = 'finished';
