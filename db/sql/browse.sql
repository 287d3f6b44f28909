-- Looking into runs, for people: a page at a time, by keyset, each page by an index. Nothing here changes anything.

-- name: browse_runs
-- The newest first; sums from the tally, so that no call is read. A sum is NULL where nothing of it is known.
SELECT run.id, run.run_id, run.source_platform, run.state, run.reason, run.simulated, run.created_at, run.finished_at,
       spent.ok_calls, spent.unknown_usage, lanes.unpriced_models,
       CASE WHEN spent.tokens > 0 OR spent.unknown_usage = 0 THEN spent.tokens END AS tokens,
       CASE WHEN spent.cost_usd > 0 OR lanes.unpriced_models = 0 AND (spent.tokens > 0 OR spent.unknown_usage = 0)
            THEN spent.cost_usd END AS cost_usd
FROM (
  SELECT * FROM run WHERE %(before)s::int IS NULL OR id < %(before)s::int ORDER BY id DESC LIMIT %(most)s) AS run
CROSS JOIN LATERAL (
  SELECT coalesce(sum(ok_calls), 0)::bigint AS ok_calls, coalesce(sum(input_tokens + output_tokens), 0)::bigint AS tokens,
         coalesce(sum(cost_usd), 0) AS cost_usd, coalesce(sum(unknown_usage_calls + unknown_calls), 0)::bigint AS unknown_usage
  FROM tally WHERE tally.run = run.id) AS spent
CROSS JOIN LATERAL (
  -- OFFSET keeps it apart: an experiment is unpacked once, not once for each model.
  SELECT count(*) AS unpriced_models FROM (SELECT run.experiment -> 'prices' AS models OFFSET 0) AS priced
  JOIN run_lane ON run_lane.run = run.id JOIN lane ON lane.id = run_lane.lane
  WHERE NOT priced.models ? lane.model) AS lanes
ORDER BY run.id DESC;

-- name: browse_strategies
-- By an index that holds all of it.
SELECT strategy.name, strategy.kind, strategy.family, coalesce(sum(counted.trials), 0)::bigint AS trials,
       coalesce(sum(counted.trials) FILTER (WHERE counted.state NOT IN ('pending', 'running')), 0)::bigint AS ended,
       coalesce(sum(counted.judged), 0)::bigint AS judged, coalesce(sum(counted.successes), 0)::bigint AS successes
FROM strategy
LEFT JOIN (
  SELECT strategy, state, count(*) AS trials, count(confirmed_success) AS judged,
         count(*) FILTER (WHERE confirmed_success) AS successes
  FROM trial WHERE run = %(run)s GROUP BY strategy, state) AS counted ON counted.strategy = strategy.id
WHERE strategy.run = %(run)s
GROUP BY strategy.id
ORDER BY strategy.position;

-- name: browse_choices
-- What trials can be selected by.
SELECT ARRAY(SELECT name FROM strategy WHERE run = %(run)s ORDER BY position) AS strategies,
       ARRAY(SELECT DISTINCT category FROM task WHERE run = %(run)s ORDER BY category LIMIT 200) AS categories;

-- name: browse_trials
-- A page of trials: those of each wanted state from the index, which holds all that is asked, then put in order.
-- Filters are NULL where not wanted.
SELECT trial.id, task.task_id, task.category, strategy.name AS strategy, trial.repeat, trial.state, trial.reason,
       trial.try, trial.confirmed_success, trial.score, trial.finished_at
FROM (
  SELECT found.id FROM unnest(%(states)s::text[]) AS wanted (state)
  CROSS JOIN LATERAL (
    SELECT trial.id FROM trial
    WHERE trial.run = %(run)s AND trial.state = wanted.state AND trial.id > %(after)s
      AND (%(strategy)s::text IS NULL
           OR trial.strategy = (SELECT id FROM strategy WHERE run = %(run)s AND name = %(strategy)s))
      -- IS TRUE keeps the tasks a set that each trial is looked up in: a join would sort all trials of them.
      AND (%(category)s::text IS NULL AND %(task)s::text IS NULL OR (trial.task IN (
             SELECT id FROM task
             WHERE run = %(run)s AND (%(category)s::text IS NULL OR category = %(category)s)
               AND (%(task)s::text IS NULL OR starts_with(task_id, %(task)s)))) IS TRUE)
    ORDER BY trial.id LIMIT %(most)s) AS found
  ORDER BY found.id LIMIT %(most)s) AS page
JOIN trial ON trial.id = page.id
JOIN task ON task.id = trial.task
JOIN strategy ON strategy.id = trial.strategy
ORDER BY trial.id;

-- name: browse_spent
-- Of each trial over its calls that have an outcome; which are unknown is told as the audit tells it. A sum is NULL where
-- nothing of it is known.
SELECT wanted.trial, spent.*
FROM unnest(%(trials)s::bigint[]) AS wanted (trial)
CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE status <> 'started') AS calls,
         count(*) FILTER (WHERE unknown_usage) AS unknown_usage, count(*) FILTER (WHERE unknown_cost) AS unknown_cost,
         CASE WHEN count(total_tokens) > 0 OR count(*) FILTER (WHERE unknown_usage) = 0
              THEN coalesce(sum(total_tokens), 0)::bigint END AS tokens,
         CASE WHEN count(cost_usd) > 0 OR count(*) FILTER (WHERE unknown_cost) = 0
              THEN coalesce(sum(cost_usd), 0) END AS cost_usd
  FROM audit_calls WHERE audit_calls.trial = wanted.trial) AS spent;

-- name: browse_trial
SELECT trial.id, trial.run, trial.repeat, trial.state, trial.reason, trial.try, trial.repetition,
       left(trial.answer, %(cut)s) AS answer, length(trial.answer) AS answer_chars, length(trial.answer) > %(cut)s AS answer_cut, trial.detail,
       trial.confirmed_success, trial.score, trial.checks, trial.started_at, trial.finished_at,
       trial.task, task.task_id, task.category, task.difficulty, task.goal, task.reference, task.files,
       trial.strategy AS strategy_row, strategy.name AS strategy, strategy.kind, strategy.params
FROM trial JOIN run ON run.id = trial.run JOIN task ON task.id = trial.task JOIN strategy ON strategy.id = trial.strategy
WHERE trial.id = %(trial)s AND run.run_id = %(run_id)s;

-- name: browse_siblings
-- The same task and repeat with the other strategies.
SELECT trial.id, strategy.name AS strategy, trial.state, trial.confirmed_success
FROM trial JOIN strategy ON strategy.id = trial.strategy
WHERE trial.task = %(task)s AND trial.repeat = %(repeat)s ORDER BY strategy.position;

-- name: browse_jobs
-- Of a trial, or of the judgings that it was shown in.
SELECT job.id, job.judging, job.try, job.round, job.sample, job.state, job.error, job.attempt, job.answer_attempt,
       job.request, lane.model
FROM job JOIN lane ON lane.id = job.lane
WHERE job.trial = %(trial)s OR job.judging = ANY(%(judgings)s::bigint[])
ORDER BY job.judging NULLS FIRST, job.try, job.round, job.sample, job.id LIMIT %(most)s;

-- name: browse_calls
SELECT call.job, call.attempt, call.turn, call.model, call.status, call.error, call.message, call.purpose,
       call.retry_reason, call.input_tokens, call.output_tokens, call.total_tokens, call.cached_input_tokens,
       call.reasoning_tokens, call.cost_usd, left(call.content, %(cut)s) AS content,
       length(call.content) AS content_chars, length(call.content) > %(cut)s AS content_cut, call.tool_calls, call.http_status, call.response_id, call.finish_reason,
       call.latency_ms, call.first_byte_ms, call.worker, call.started_at, call.finished_at
FROM call WHERE call.job = ANY(%(jobs)s)
ORDER BY call.job, call.attempt, call.turn LIMIT %(most)s;

-- name: browse_judgings
SELECT judging.id, judging.judge, judging.kind, judging.number, judging.state, judging.question, judging.readings
FROM judging
WHERE judging.task = %(task)s AND judging.repeat = %(repeat)s AND judging.question @> to_jsonb(%(trial)s::bigint)
ORDER BY judging.number LIMIT %(most)s;

-- name: browse_verdicts
SELECT verdict.id, verdict.judging, judging.judge, verdict.tie, verdict.winner = %(trial)s AS won, verdict.weight,
       verdict.items, other.id AS opponent, strategy.name AS opponent_strategy, other.repeat AS opponent_repeat
FROM verdict
LEFT JOIN judging ON judging.id = verdict.judging
JOIN trial AS other ON other.id = CASE verdict.winner WHEN %(trial)s THEN verdict.loser ELSE verdict.winner END
JOIN strategy ON strategy.id = other.strategy
WHERE verdict.run = %(run)s AND (verdict.winner = %(trial)s OR verdict.loser = %(trial)s)
ORDER BY verdict.id LIMIT %(most)s;

-- name: browse_trial_files
SELECT "try", name, octet_length(content) AS bytes FROM trial_file WHERE trial = %(trial)s ORDER BY "try", name LIMIT %(most)s;

-- name: browse_trial_file
SELECT trial_file.content
FROM trial_file JOIN trial ON trial.id = trial_file.trial JOIN run ON run.id = trial.run
WHERE run.run_id = %(run_id)s AND trial_file.trial = %(trial)s AND trial_file.try = %(try)s AND trial_file.name = %(name)s;

-- name: browse_answer
SELECT trial.answer AS text FROM trial JOIN run ON run.id = trial.run
WHERE run.run_id = %(run_id)s AND trial.id = %(trial)s AND trial.answer IS NOT NULL;

-- name: browse_output
SELECT call.content AS text FROM call JOIN run ON run.id = call.run
WHERE run.run_id = %(run_id)s AND call.job = %(job)s AND call.attempt = %(attempt)s AND call.turn = %(turn)s
  AND call.content IS NOT NULL;

-- name: browse_job
SELECT job.id, job.sample, job.round, job.request, job.trial, job.judging FROM job JOIN run ON run.id = job.run
WHERE run.run_id = %(run_id)s AND job.id = %(job)s;

-- name: browse_question
-- What a judge was asked about, and all that its prompt was made from.
SELECT judging.judge, judging.repeat, task.task_id, task.goal, task.category, task.files, run.experiment,
       array_agg(coalesce(trial.answer, '') ORDER BY shown.place) AS answers
FROM judging
JOIN task ON task.id = judging.task
JOIN run ON run.id = judging.run
CROSS JOIN LATERAL jsonb_array_elements_text(judging.question) WITH ORDINALITY AS shown (trial, place)
JOIN trial ON trial.id = shown.trial::bigint
WHERE judging.id = %(judging)s
GROUP BY judging.id, task.id, run.id;

-- name: browse_search
-- One window of trials, whose outputs are all read: how many stands beside what was found. `matches` is one more than
-- are shown, so that it is known whether there are more.
WITH searched AS MATERIALIZED (
  SELECT found.id FROM unnest(%(states)s::text[]) AS wanted (state)
  CROSS JOIN LATERAL (
    SELECT trial.id FROM trial WHERE trial.run = %(run)s AND trial.state = wanted.state AND trial.id > %(after)s
    ORDER BY trial.id LIMIT %(window)s) AS found
  ORDER BY found.id LIMIT %(window)s),
read AS MATERIALIZED (
  SELECT searched.id AS trial, call.job, call.attempt, call.turn, call.status,
         strpos(lower(call.content), lower(%(text)s)) AS place
  FROM searched JOIN job ON job.trial = searched.id JOIN call ON call.job = job.id
  WHERE call.content IS NOT NULL),
matched AS (
  SELECT * FROM read WHERE place > 0 ORDER BY trial, job, attempt, turn LIMIT %(most)s)
SELECT (SELECT count(*) FROM searched) AS searched_trials, (SELECT count(*) FROM read) AS searched_outputs,
       (SELECT max(id) FROM searched) AS last_trial,
       coalesce((
         SELECT jsonb_agg(jsonb_build_object(
                  'trial', matched.trial, 'job', matched.job, 'attempt', matched.attempt, 'status', matched.status,
                  'task_id', task.task_id, 'strategy', strategy.name, 'repeat', trial.repeat,
                  'before', substr(call.content, greatest(matched.place - 80, 1), least(80, matched.place - 1)),
                  'match', substr(call.content, matched.place, length(%(text)s)),
                  'after', substr(call.content, matched.place + length(%(text)s), 80))
                ORDER BY matched.trial, matched.job, matched.attempt, matched.turn)
         FROM matched JOIN trial ON trial.id = matched.trial
         JOIN task ON task.id = trial.task JOIN strategy ON strategy.id = trial.strategy
         JOIN call ON call.job = matched.job AND call.attempt = matched.attempt AND call.turn = matched.turn), '[]')
         AS matches;
