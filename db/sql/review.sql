-- Trials that wait for a person's decision.

-- name: trials_in_review
-- Without an answer of its own a trial shows the last text that came: what could not be used is there to be seen.
SELECT trial.id AS trial, task.task_id, strategy.name AS strategy, trial.repeat, trial.try, trial.reason, task.goal,
       task.reference, trial.answer, trial.checks,
       CASE WHEN trial.answer IS NULL THEN (
         SELECT call.content FROM job JOIN call ON call.job = job.id
         WHERE job.trial = trial.id AND call.content IS NOT NULL
         ORDER BY job.try DESC, job.round DESC, call.finished_at DESC LIMIT 1) END AS last_text
FROM trial JOIN task ON task.id = trial.task JOIN strategy ON strategy.id = trial.strategy
WHERE trial.run = %(run)s AND trial.state = 'review'
ORDER BY task.position, strategy.position, trial.repeat;

-- name: decide_trial
-- What has no answer cannot pass; it has failed, and that is known now.
UPDATE trial
SET state = CASE WHEN answer IS NULL THEN 'failed' ELSE 'ok' END, confirmed_success = %(passed)s,
    reason = concat_ws('; ', reason, %(note)s::text),
    detail = coalesce(detail, '{}') || '{"decided_by": "person"}', version = version + 1
WHERE id = %(trial)s AND run = %(run)s AND state = 'review' AND (answer IS NOT NULL OR NOT %(passed)s)
RETURNING id;
