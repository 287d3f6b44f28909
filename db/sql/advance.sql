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
RETURNING trial.id AS trial, trial.run, trial.task, trial.strategy, trial.repeat, trial.try, trial.version,
          trial.repetition;

-- name: hand_back_trials
UPDATE trial SET lease_until = NULL
FROM unnest(%(trials)s::bigint[], %(versions)s::int[]) AS item (trial, version)
WHERE trial.id = item.trial AND trial.version = item.version AND trial.due;

-- name: read_replies
-- What the calls of the last round were asked goes with them: a conversation is nowhere else.
SELECT job.trial, job.round, job.sample, job.state, job.error, call.message, call.content, call.tool_calls,
       call.latency_ms, call.total_tokens,
       CASE WHEN job.round > 1 AND job.round = max(job.round) OVER (PARTITION BY job.trial)
            THEN job.request -> 'messages' END AS messages
FROM unnest(%(trials)s::bigint[], %(tries)s::int[]) AS item (trial, try)
JOIN job ON job.trial = item.trial AND job.try = item.try
LEFT JOIN LATERAL (
  -- An external agent may have several turns; the last one holds the answer.
  SELECT message, content, tool_calls, latency_ms,
         CASE WHEN count(*) FILTER (WHERE total_tokens IS NULL) OVER () = 0 THEN sum(total_tokens) OVER () END::bigint
           AS total_tokens
  FROM call WHERE call.job = job.id AND call.attempt = coalesce(job.answer_attempt, job.attempt)
  ORDER BY turn DESC LIMIT 1) AS call ON true
ORDER BY job.trial, job.round, job.sample;

-- name: read_trial_files
SELECT trial_file.trial, trial_file.name, trial_file.content
FROM unnest(%(trials)s::bigint[], %(tries)s::int[]) AS item (trial, try)
JOIN trial_file ON trial_file.trial = item.trial AND trial_file.try = item.try
ORDER BY trial_file.trial, trial_file.name;

-- name: add_files
-- What a step has written, for the version that was seen: before the step itself moves the version on.
INSERT INTO trial_file (trial, try, name, content)
SELECT trial.id, trial.try, item.name, item.content
FROM unnest(%(trials)s::bigint[], %(versions)s::int[], %(names)s::text[], %(contents)s::bytea[])
  AS item (trial, version, name, content)
JOIN trial ON trial.id = item.trial AND trial.version = item.version AND trial.state IN ('pending', 'running')
ON CONFLICT (trial, try, name) DO UPDATE SET content = EXCLUDED.content;

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
      confirmed_success = item.confirmed_success, finished_at = now(),
      -- What the checks saw in earlier tries stays.
      checks = CASE WHEN trial.checks IS NULL THEN item.checks ELSE trial.checks || coalesce(item.checks, '[]') END,
      due = false, lease_until = NULL, version = trial.version + 1
  FROM item
  WHERE trial.id = item.trial AND trial.version = item.version AND trial.state IN ('pending', 'running')
  RETURNING trial.id),
open AS MATERIALIZED (
  SELECT job.id FROM job JOIN finished ON finished.id = job.trial
  WHERE job.state IN ('pending', 'queued') ORDER BY job.id FOR NO KEY UPDATE OF job)
UPDATE job SET state = 'cancelled' FROM open WHERE job.id = open.id;

-- name: rerun_trials
-- A trial whose answer failed its checks begins anew, in its next try; `add_openings` gives it its jobs.
UPDATE trial
SET try = trial.try + 1, repetition = 'failed_check', checks = coalesce(trial.checks, '[]') || item.checks,
    due = false, lease_until = NULL, version = trial.version + 1
FROM jsonb_to_recordset(%(items)s) AS item (trial bigint, version int, checks jsonb)
WHERE trial.id = item.trial AND trial.version = item.version AND trial.state IN ('pending', 'running');

-- name: add_openings
-- The opening jobs of a later try: the same slots as in the try before. A try that has them keeps them.
INSERT INTO job (run, trial, lane, try, round, sample, reserve_tokens, reserve_cost_usd)
SELECT job.run, job.trial, job.lane, trial.try, job.round, job.sample, job.reserve_tokens, job.reserve_cost_usd
FROM trial JOIN job ON job.trial = trial.id AND job.try = trial.try - 1 AND job.round = 1
WHERE trial.id = ANY(%(trials)s)
ORDER BY job.trial, job.sample
ON CONFLICT DO NOTHING;
