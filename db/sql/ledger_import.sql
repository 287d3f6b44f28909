-- Importing a ledger: rows that were checked one by one become a finished run, in one transaction.
-- What a ledger does not say (goals, checks, outcomes, keys, bounds) stays empty, or says 'imported'.

-- name: stage_lines
CREATE TEMPORARY TABLE staged_line (line bigint, entry jsonb) ON COMMIT DROP;

-- name: stage_rows
CREATE TEMPORARY TABLE staged ON COMMIT DROP AS
SELECT line, coalesce(strategy, '') AS strategy, task_id, repeat, round, sample, attempt, model, input_tokens,
       output_tokens, total_tokens, cached_input_tokens, reasoning_tokens, latency_ms, status, error, content, try, turn,
       kind, purpose, retry_reason, used, http_status, response_id, first_byte_ms, finish_reason, usage, cost_usd,
       worker, started_at, finished_at, winner, opponent
FROM staged_line CROSS JOIN LATERAL jsonb_to_record(staged_line.entry) AS entry (
  task_id text, strategy text, repeat int, round smallint, sample smallint, attempt smallint, model text,
  input_tokens int, output_tokens int, total_tokens int, cached_input_tokens int, reasoning_tokens int,
  latency_ms int, status text, error text, content text, try smallint, turn smallint, kind text, purpose text,
  retry_reason text, used boolean, http_status smallint, response_id text, first_byte_ms int, finish_reason text,
  usage jsonb, cost_usd float8, worker text, started_at timestamptz, finished_at timestamptz,
  winner jsonb, opponent jsonb);

-- name: repeated_row
SELECT (array_agg(line ORDER BY line))[1] AS first, (array_agg(line ORDER BY line))[2] AS second
FROM staged GROUP BY task_id, strategy, repeat, try, round, sample, attempt, turn
HAVING count(*) > 1 ORDER BY 2 LIMIT 1;

-- name: stage_trials
-- Ids are drawn here, so that jobs and calls need not look them up again.
CREATE TEMPORARY TABLE staged_trial ON COMMIT DROP AS
SELECT nextval(pg_get_serial_sequence('trial', 'id')) AS id, found.*
FROM (
  SELECT task_id, strategy, repeat, min(line) AS line, (array_agg(winner ORDER BY line))[1] AS winner,
         (array_agg(opponent ORDER BY line))[1] AS opponent
  FROM staged WHERE kind = 'generation' GROUP BY task_id, strategy, repeat ORDER BY 4) AS found;

-- name: stage_judgings
-- What a judge's calls of one round were about no ledger says.
CREATE TEMPORARY TABLE staged_judging ON COMMIT DROP AS
SELECT nextval(pg_get_serial_sequence('judging', 'id')) AS id, found.*
FROM (SELECT task_id, strategy, repeat, round, min(line) AS line
      FROM staged WHERE kind = 'judge' GROUP BY task_id, strategy, repeat, round ORDER BY 5) AS found;

-- name: stage_verdicts
CREATE TEMPORARY TABLE staged_verdict ON COMMIT DROP AS
SELECT mine.id AS trial, against.id AS opponent, mine.strategy COLLATE "C" < said.opponent COLLATE "C" AS first,
       said.winner = said.opponent AS lost, said.winner = 'tie' AS tie, mine.line, said.place
FROM staged_trial AS mine
CROSS JOIN LATERAL ROWS FROM (
  jsonb_array_elements_text(CASE jsonb_typeof(winner) WHEN 'array' THEN winner ELSE jsonb_build_array(winner) END),
  jsonb_array_elements_text(CASE jsonb_typeof(opponent) WHEN 'array' THEN opponent ELSE jsonb_build_array(opponent) END))
  WITH ORDINALITY AS said (winner, opponent, place)
LEFT JOIN staged_trial AS against
  ON against.task_id = mine.task_id AND against.repeat = mine.repeat AND against.strategy = said.opponent
WHERE mine.opponent IS NOT NULL;

-- name: unknown_opponent
SELECT line FROM staged_verdict WHERE opponent IS NULL ORDER BY line LIMIT 1;

-- name: judged_twice
SELECT staged_trial.line AS first, staged.line AS second
FROM staged JOIN staged_trial USING (task_id, strategy, repeat)
WHERE staged.winner IS DISTINCT FROM staged_trial.winner OR staged.opponent IS DISTINCT FROM staged_trial.opponent
ORDER BY 2 LIMIT 1;

-- name: stage_jobs
CREATE TEMPORARY TABLE staged_job ON COMMIT DROP AS
SELECT nextval(pg_get_serial_sequence('job', 'id')) AS id, found.*
FROM (
  SELECT staged_trial.id AS trial, staged_judging.id AS judging, task_id, strategy, repeat, try, round, sample,
         (array_agg(model ORDER BY attempt, turn))[1] AS model, max(attempt) AS attempt,
         max(attempt) FILTER (WHERE used) AS answer_attempt,
         count(DISTINCT attempt) FILTER (WHERE used) AS answers,
         count(*) FILTER (WHERE used) AS used_rows,
         min(staged.line) FILTER (WHERE used) AS used_line,
         max(staged.line) FILTER (WHERE used) AS also_used_line,
         (array_agg(error ORDER BY attempt DESC, turn DESC))[1] AS error,
         min(started_at) AS started_at, max(finished_at) AS finished_at
  FROM staged
  LEFT JOIN staged_trial USING (task_id, strategy, repeat)
  LEFT JOIN staged_judging USING (task_id, strategy, repeat, round)
  GROUP BY staged_trial.id, staged_judging.id, task_id, strategy, repeat, try, round, sample
  ORDER BY staged_trial.id, staged_judging.id, try, round, sample) AS found;

-- name: answered_twice
SELECT used_line AS first, also_used_line AS second FROM staged_job WHERE answers > 1 ORDER BY 2 LIMIT 1;

-- name: import_run
-- The simulated gateway marks its answers, so that nothing of it passes for real anywhere. `prices` names the models
-- whose cost is known for every call that said its tokens; the prices themselves are not.
INSERT INTO run (run_id, source_platform, state, experiment, experiment_hash, prompts_hash, key_fingerprint, simulated,
                 created_at, finished_at)
SELECT %(run_id)s, %(source_platform)s, 'finished',
       jsonb_build_object('imported', true, 'prices', coalesce(
         (SELECT jsonb_object_agg(model, NULL) FROM (
            SELECT model FROM staged GROUP BY model
            HAVING bool_and(cost_usd IS NOT NULL OR total_tokens IS NULL) AND count(cost_usd) > 0) AS priced),
         '{}')),
       'imported', 'imported', 'imported', coalesce(bool_or(response_id LIKE 'chatcmpl-sim-%%'), false),
       min(started_at), max(coalesce(finished_at, started_at))
FROM staged
ON CONFLICT (run_id) DO NOTHING
RETURNING id;

-- name: imported_run
SELECT run_id FROM run WHERE id = %(run)s AND experiment ? 'imported';

-- name: import_tasks
INSERT INTO task (run, task_id, position, category, difficulty, weight, goal, files, checks, prompt_bytes)
SELECT %(run)s, task_id, row_number() OVER (ORDER BY min(line)), '', '', 1, '', '{}', '[]', 0
FROM staged GROUP BY task_id;

-- name: import_strategies
INSERT INTO strategy (run, name, position, kind, family, tier, params)
SELECT %(run)s, strategy, row_number() OVER (ORDER BY min(line)), 'imported', strategy, 1, '{}'
FROM staged_trial GROUP BY strategy;

-- name: import_lanes
WITH found AS (
  INSERT INTO lane (endpoint, key_fingerprint, model)
  SELECT DISTINCT 'imported', 'imported', model FROM staged
  ON CONFLICT (endpoint, key_fingerprint, model) DO UPDATE SET model = EXCLUDED.model
  RETURNING id)
INSERT INTO run_lane (run, lane, proven_at) SELECT %(run)s, id, now() FROM found;

-- name: import_trials
-- A trial counts as answered when every job of its last try is. Whether the answer is right no ledger says.
INSERT INTO trial (id, run, task, strategy, repeat, state, reason, try, started_at, finished_at)
OVERRIDING SYSTEM VALUE
SELECT tried.trial, %(run)s, task.id, strategy.id, tried.repeat,
       CASE WHEN tried.answered[1] THEN 'ok' ELSE 'failed' END,
       CASE WHEN NOT tried.answered[1] THEN 'The imported ledger holds no used answer for one of its calls.' END,
       tried.try, tried.started_at, tried.finished_at
FROM (
  SELECT trial, task_id, strategy, repeat, max(try) AS try, array_agg(answered ORDER BY try DESC) AS answered,
         min(started_at) AS started_at, max(finished_at) AS finished_at
  FROM (
    SELECT trial, task_id, strategy, repeat, try, bool_and(answer_attempt IS NOT NULL) AS answered,
           min(started_at) AS started_at, max(finished_at) AS finished_at
    FROM staged_job WHERE trial IS NOT NULL GROUP BY trial, task_id, strategy, repeat, try) AS tries
  GROUP BY trial, task_id, strategy, repeat) AS tried
JOIN task ON task.run = %(run)s AND task.task_id = tried.task_id
JOIN strategy ON strategy.run = %(run)s AND strategy.name = tried.strategy;

-- name: import_judgings
INSERT INTO judging (id, run, task, repeat, number, judge, kind, question, state)
OVERRIDING SYSTEM VALUE
SELECT staged_judging.id, %(run)s, task.id, repeat, round, 'imported', 'imported', '[]', 'ok'
FROM staged_judging JOIN task ON task.run = %(run)s AND task.task_id = staged_judging.task_id;

-- name: import_verdicts
-- Each verdict stands in the rows of both trials: it is taken from the one whose strategy comes first.
INSERT INTO verdict (run, task, winner, loser, tie)
SELECT %(run)s, trial.task, CASE WHEN said.lost THEN said.opponent ELSE said.trial END,
       CASE WHEN said.lost THEN said.trial ELSE said.opponent END, said.tie
FROM staged_verdict AS said JOIN trial ON trial.id = said.trial
WHERE said.first
ORDER BY said.line, said.place;

-- name: import_jobs
INSERT INTO job (id, run, trial, judging, lane, try, round, sample, state, reserve_tokens, attempt, answer_attempt, error)
OVERRIDING SYSTEM VALUE
SELECT staged_job.id, %(run)s, trial, judging, lane.id, try, round, sample,
       CASE WHEN answer_attempt IS NULL THEN 'failed' ELSE 'ok' END, 0, attempt, answer_attempt,
       CASE WHEN answer_attempt IS NULL THEN error END
FROM staged_job
JOIN lane ON lane.model = staged_job.model AND lane.endpoint = 'imported' AND lane.key_fingerprint = 'imported';

-- name: import_calls
INSERT INTO call (job, attempt, turn, run, model, status, error, purpose, retry_reason, reserve_tokens, input_tokens,
                  output_tokens, total_tokens, cached_input_tokens, reasoning_tokens, usage, cost_usd, content,
                  http_status, response_id, finish_reason, latency_ms, first_byte_ms, worker, key_fingerprint,
                  started_at, finished_at)
SELECT staged_job.id, staged.attempt, turn, %(run)s, staged.model, status, staged.error, purpose, retry_reason, 0,
       input_tokens, output_tokens, total_tokens, cached_input_tokens, reasoning_tokens, usage, cost_usd, content,
       http_status, response_id, finish_reason, latency_ms, first_byte_ms, worker, 'imported', staged.started_at,
       staged.finished_at
FROM staged JOIN staged_job USING (task_id, strategy, repeat, try, round, sample);

-- name: import_tally
INSERT INTO tally (run, owner, ok_calls, error_calls, unknown_calls, input_tokens, output_tokens, cost_usd,
                   unknown_usage_calls)
SELECT %(run)s, 'import', count(*) FILTER (WHERE status = 'ok'), count(*) FILTER (WHERE status = 'error'),
       count(*) FILTER (WHERE status = 'unknown'), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),
       coalesce(sum(cost_usd), 0), count(*) FILTER (WHERE status = 'ok' AND total_tokens IS NULL)
FROM staged;
