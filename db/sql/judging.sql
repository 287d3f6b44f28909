-- Judging: questions to judges about the answers of one task and repeat, planned when no trial of a run is open.
-- A judging is due when none of its calls is open; its replies are read outside any transaction, and the verdicts
-- committed for the version that was seen. Locks: trial, judging, job, call.

-- name: runs_to_judge
-- An open trial is looked for first and by its index, as in `finish_runs`.
SELECT id FROM run
WHERE state = 'running' AND judgings IS NULL
  AND CASE WHEN (SELECT trial.run FROM trial
                 WHERE trial.run BETWEEN run.id AND run.id AND trial.state IN ('pending', 'running')
                 ORDER BY trial.run LIMIT 1) IS NOT NULL THEN false
           ELSE jsonb_array_length(experiment -> 'judges') > 0 END
ORDER BY id;

-- name: lock_run_to_judge
SELECT experiment FROM run WHERE id = %(run)s AND state = 'running' AND judgings IS NULL FOR NO KEY UPDATE;

-- name: stage_answers
-- Trials that have something to judge, each with its place among those of its task and repeat.
CREATE TEMPORARY TABLE staged_answer ON COMMIT DROP AS
SELECT trial.id, trial.task, trial.repeat, strategy.name,
       row_number() OVER (PARTITION BY trial.task, trial.repeat ORDER BY strategy.position) AS place,
       octet_length(trial.answer) + %(frame_bytes)s AS bytes
FROM trial JOIN strategy ON strategy.id = trial.strategy
WHERE trial.run = %(run)s AND trial.answer <> '';

-- name: stage_pairs
-- All pairs, or neighbours in the experiment's order, or a sample that the seed draws.
CREATE TEMPORARY TABLE staged_question ON COMMIT DROP AS
SELECT task, repeat, jsonb_build_array(first, second) AS question, bytes
FROM (
  SELECT one.task, one.repeat, one.id AS first, other.id AS second, one.bytes + other.bytes AS bytes,
         row_number() OVER (PARTITION BY one.task, one.repeat ORDER BY
                            md5(concat_ws(':', %(seed)s::text, task.task_id, one.repeat, one.name, other.name))) AS drawn
  FROM staged_answer AS one
  JOIN staged_answer AS other ON other.task = one.task AND other.repeat = one.repeat AND other.place > one.place
  JOIN task ON task.id = one.task
  WHERE NOT %(neighbours)s OR other.place = one.place + 1) AS pair
WHERE %(sample)s::int IS NULL OR drawn <= %(sample)s::int;

-- name: stage_groups
-- All answers of a task and repeat together.
CREATE TEMPORARY TABLE staged_question ON COMMIT DROP AS
SELECT task, repeat, jsonb_agg(id ORDER BY place) AS question, sum(bytes) AS bytes
FROM staged_answer GROUP BY task, repeat HAVING count(*) >= 2;

-- name: insert_judgings
-- What was judged already is not judged again.
INSERT INTO judging (run, task, repeat, number, judge, kind, question)
SELECT %(run)s, staged.task, staged.repeat,
       coalesce(taken.number, 0) + row_number() OVER (PARTITION BY staged.task, staged.repeat ORDER BY staged.question),
       %(judge)s, %(kind)s, staged.question
FROM staged_question AS staged
JOIN task ON task.id = staged.task
LEFT JOIN (SELECT task, repeat, max(number) AS number FROM judging WHERE run = %(run)s GROUP BY task, repeat) AS taken
  ON taken.task = staged.task AND taken.repeat = staged.repeat
WHERE NOT EXISTS (
  SELECT FROM judging
  WHERE judging.task = staged.task AND judging.repeat = staged.repeat AND judging.judge = %(judge)s
    AND judging.question = staged.question AND judging.state <> 'cancelled')
ORDER BY staged.repeat, task.position;

-- name: insert_judge_jobs
-- The calls of the judgings that have none yet: so many each, or with NULL one for each answer. A bound covers the
-- task, the prompt and the answers that are shown.
INSERT INTO job (run, judging, lane, round, sample, reserve_tokens, reserve_cost_usd, not_before)
SELECT judging.run, judging.id, lane.id, judging.number, sample,
       bound.prompt_bytes + %(max_tokens)s::int,
       bound.prompt_bytes * %(input_usd)s::float8 + %(max_tokens)s::int * %(output_usd)s::float8, now()
FROM judging
JOIN staged_question AS staged
  ON staged.task = judging.task AND staged.repeat = judging.repeat AND staged.question = judging.question
JOIN task ON task.id = judging.task
JOIN run_lane ON run_lane.run = judging.run
JOIN lane ON lane.id = run_lane.lane AND lane.model = %(model)s
CROSS JOIN LATERAL generate_series(1, coalesce(%(calls)s::int, jsonb_array_length(judging.question))) AS sample
CROSS JOIN LATERAL (
  SELECT (task.prompt_bytes * %(task_copies)s::int + %(prompt_bytes)s::int
          + staged.bytes * %(answer_copies)s::int)::int AS prompt_bytes) AS bound
WHERE judging.run = %(run)s AND judging.judge = %(judge)s AND judging.state = 'pending'
  AND NOT EXISTS (SELECT FROM job WHERE job.judging = judging.id)
ORDER BY judging.id, sample;

-- name: drop_staged_question
DROP TABLE staged_question;

-- name: note_judgings
-- What is planned now, and its bound: said before the first call leaves.
UPDATE run SET judgings = coalesce((
  SELECT jsonb_agg(planned) FROM (
    SELECT judging.judge, count(DISTINCT judging.id) AS judgings, count(*) AS calls,
           sum(job.reserve_tokens) AS most_tokens, sum(job.reserve_cost_usd) AS most_cost_usd
    FROM judging JOIN job ON job.judging = judging.id
    WHERE judging.run = %(run)s AND judging.state <> 'cancelled'
    GROUP BY judging.judge ORDER BY min(judging.id)) AS planned), '[]')
WHERE id = %(run)s;

-- name: read_questions
-- What a claimed call of a judge is about.
SELECT judging.id AS judging, judging.judge, array_agg(trial.answer ORDER BY shown.place) AS answers
FROM judging
CROSS JOIN LATERAL jsonb_array_elements_text(judging.question) WITH ORDINALITY AS shown (trial, place)
JOIN trial ON trial.id = shown.trial::bigint
WHERE judging.id = ANY(%(judgings)s)
GROUP BY judging.id;

-- name: lock_judgings
SELECT id FROM judging WHERE id = ANY(%(judgings)s) ORDER BY id FOR NO KEY UPDATE;

-- name: mark_judgings_due
UPDATE judging SET due = true, version = version + 1, lease_until = NULL
WHERE id = ANY(%(judgings)s) AND state = 'pending'
  AND NOT EXISTS (SELECT FROM job WHERE job.judging = judging.id AND job.state IN ('pending', 'queued', 'running'));

-- name: lease_due_judgings
WITH due AS MATERIALIZED (
  SELECT id FROM judging
  WHERE due AND (lease_until IS NULL OR lease_until < now())
  ORDER BY id
  LIMIT %(most)s
  FOR NO KEY UPDATE SKIP LOCKED)
UPDATE judging SET lease_until = now() + make_interval(secs => %(lease_s)s)
FROM due, task
WHERE judging.id = due.id AND task.id = judging.task
RETURNING judging.id AS judging, judging.run, task.task_id, judging.repeat, judging.judge, judging.question,
          judging.version;

-- name: hand_back_judgings
UPDATE judging SET lease_until = NULL
FROM unnest(%(judgings)s::bigint[], %(versions)s::int[]) AS item (judging, version)
WHERE judging.id = item.judging AND judging.version = item.version AND judging.due;

-- name: read_judge_replies
SELECT job.judging, job.sample, job.state, job.error, call.content
FROM job LEFT JOIN call ON call.job = job.id AND call.attempt = job.answer_attempt
WHERE job.judging = ANY(%(judgings)s)
ORDER BY job.judging, job.sample;

-- name: finish_judgings
WITH item AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset(%(items)s) AS item (judging bigint, version int, state text, readings jsonb,
                                                       verdicts jsonb)),
finished AS (
  UPDATE judging SET state = item.state, readings = item.readings, due = false, lease_until = NULL,
                     version = judging.version + 1
  FROM item
  WHERE judging.id = item.judging AND judging.version = item.version AND judging.state = 'pending'
  RETURNING judging.id, judging.run, judging.task, item.verdicts)
INSERT INTO verdict (run, judging, task, winner, loser, tie, items)
SELECT finished.run, finished.id, finished.task, said.winner, said.loser, said.tie, said.items
FROM finished
CROSS JOIN LATERAL ROWS FROM (
  jsonb_to_recordset(finished.verdicts) AS (winner bigint, loser bigint, tie boolean, items int))
  WITH ORDINALITY AS said (winner, loser, tie, items, place)
ORDER BY finished.id, said.place;

-- name: void_judgings
-- The answers of these trials will be other ones: what was said of them counts no more. Its ledger rows stay.
WITH touched AS MATERIALIZED (
  SELECT judging.id FROM judging JOIN trial ON trial.task = judging.task AND trial.repeat = judging.repeat
  WHERE trial.id = ANY(%(trials)s) AND judging.state <> 'cancelled'
    AND (judging.kind <> 'pairwise' OR judging.question @> to_jsonb(trial.id))
  ORDER BY judging.id FOR NO KEY UPDATE OF judging),
voided AS (
  UPDATE judging SET state = 'cancelled', due = false, lease_until = NULL, version = version + 1
  FROM touched WHERE judging.id = touched.id
  RETURNING judging.id),
unsaid AS (DELETE FROM verdict USING voided WHERE verdict.judging = voided.id),
open AS MATERIALIZED (
  SELECT job.id FROM job JOIN voided ON voided.id = job.judging
  WHERE job.state IN ('pending', 'queued') ORDER BY job.id FOR NO KEY UPDATE OF job)
UPDATE job SET state = 'cancelled' FROM open WHERE job.id = open.id;

-- name: judge_anew
UPDATE run SET judgings = NULL WHERE id = %(run)s;

-- name: cancel_judgings
UPDATE judging SET state = 'cancelled', due = false, lease_until = NULL, version = version + 1
WHERE run = %(run)s AND state = 'pending';

-- name: judging_counts
SELECT judge, state, count(*) AS judgings FROM judging WHERE run = %(run)s GROUP BY judge, state ORDER BY judge, state;

-- name: copy_verdicts
SELECT judging.judge, task.task_id, winner.name AS winner, loser.name AS loser, verdict.tie, verdict.weight,
       verdict.items::float8 AS items
FROM verdict
JOIN judging ON judging.id = verdict.judging
JOIN task ON task.id = verdict.task
JOIN trial AS won ON won.id = verdict.winner
JOIN strategy AS winner ON winner.id = won.strategy
JOIN trial AS lost ON lost.id = verdict.loser
JOIN strategy AS loser ON loser.id = lost.strategy
WHERE verdict.run = %(run)s AND judging.state = 'ok'
ORDER BY verdict.id;

-- name: copy_readings
SELECT judging.judge, judging.id AS judging, reading.value -> 'shown' AS shown, reading.value -> 'scores' AS scores,
       reading.value ->> 'problem' AS problem
FROM judging CROSS JOIN LATERAL jsonb_array_elements(judging.readings) WITH ORDINALITY AS reading (value, sample)
WHERE judging.run = %(run)s AND judging.state IN ('ok', 'failed')
ORDER BY judging.id, reading.sample;
