-- Advancing: a due trial's strategy is asked what follows, outside any transaction; then one commit, for the version
-- that was seen.

-- name: lease_due_trials
-- `trials` NULL takes whatever is due and nobody's: a sweep finds what a vanished worker left.
WITH due AS MATERIALIZED (
  SELECT id FROM trial
  WHERE due AND (lease_until IS NULL OR lease_until < now())
    AND (%(trials)s::bigint[] IS NULL OR id = ANY(%(trials)s))
    AND EXISTS (SELECT FROM run WHERE run.id = trial.run AND run.state <> 'cancelled')
  ORDER BY id
  LIMIT %(most)s
  FOR NO KEY UPDATE SKIP LOCKED)
UPDATE trial SET lease_until = now() + make_interval(secs => %(lease_s)s)
FROM due WHERE trial.id = due.id
RETURNING trial.id AS trial, trial.run, trial.task, trial.strategy, trial.repeat, trial.try, trial.version;

-- name: read_replies
SELECT job.trial, job.round, job.sample, job.state, job.error, call.message, call.content
FROM unnest(%(trials)s::bigint[], %(tries)s::int[]) AS item (trial, try)
JOIN job ON job.trial = item.trial AND job.try = item.try
LEFT JOIN call ON call.job = job.id AND call.attempt = coalesce(job.answer_attempt, job.attempt)
ORDER BY job.trial, job.round, job.sample;

-- name: add_rounds
-- The next round's jobs. Nothing happens to a trial that has moved on since it was read.
WITH item AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset(%(items)s) AS item (
    trial bigint, version int, round int, sample int, model text, request jsonb, reserve_tokens int,
    reserve_cost_usd float8)),
step AS (SELECT DISTINCT trial, version FROM item),
mine AS (
  UPDATE trial SET due = false, lease_until = NULL, version = trial.version + 1
  FROM step
  WHERE trial.id = step.trial AND trial.version = step.version AND trial.state IN ('pending', 'running')
  RETURNING trial.id, trial.run, trial.try)
INSERT INTO job (run, trial, lane, try, round, sample, request, reserve_tokens, reserve_cost_usd)
SELECT mine.run, mine.id, lane.id, mine.try, item.round, item.sample, item.request, item.reserve_tokens,
       item.reserve_cost_usd
FROM item JOIN mine ON mine.id = item.trial
JOIN run_lane ON run_lane.run = mine.run
JOIN lane ON lane.id = run_lane.lane AND lane.model = item.model
ORDER BY mine.id, item.round, item.sample
ON CONFLICT DO NOTHING;

-- name: finish_trials
WITH item AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset(%(items)s) AS item (
    trial bigint, version int, state text, reason text, answer text, detail jsonb, confirmed_success boolean,
    checks jsonb)),
finished AS (
  UPDATE trial
  SET state = item.state, reason = item.reason, answer = item.answer, detail = item.detail,
      confirmed_success = item.confirmed_success, checks = item.checks, finished_at = now(),
      due = false, lease_until = NULL, version = trial.version + 1
  FROM item
  WHERE trial.id = item.trial AND trial.version = item.version AND trial.state IN ('pending', 'running')
  RETURNING trial.id),
open AS MATERIALIZED (
  SELECT job.id FROM job JOIN finished ON finished.id = job.trial
  WHERE job.state IN ('pending', 'queued') ORDER BY job.id FOR NO KEY UPDATE OF job)
UPDATE job SET state = 'cancelled' FROM open WHERE job.id = open.id;
