-- Importing a ledger: checked rows become a finished run, in one transaction. Those of an export are copied straight into
-- the tables; the last part of this file is for rows in another order, which are sorted first.
-- What a ledger does not say (goals, checks, outcomes, keys, bounds) stays empty, or says 'imported'.

-- name: try_import_alone
-- Two imports at once would wait for each other's lanes, in any order.
SELECT pg_try_advisory_xact_lock(hashtext('paretoken import')) AS alone;

-- name: import_alone
SELECT pg_advisory_xact_lock(hashtext('paretoken import'));

-- name: import_run
INSERT INTO run (run_id, source_platform, state, experiment, experiment_hash, prompts_hash, key_fingerprint, simulated)
VALUES (%(run_id)s, %(source_platform)s, 'finished', '{"imported": true}', 'imported', 'imported', 'imported', false)
ON CONFLICT (run_id) DO NOTHING
RETURNING id;

-- name: imported_run
SELECT run_id FROM run WHERE id = %(run)s AND experiment ? 'imported';

-- name: judged_trials
CREATE TEMPORARY TABLE judged_trial (
  trial bigint, task bigint, repeat int, line bigint, strategy text, winner jsonb, opponent jsonb) ON COMMIT DROP;

-- name: draw_ids
-- The name is asked for once, and not for every id.
SELECT array_agg(nextval((SELECT pg_get_serial_sequence(%(table)s, 'id'))::regclass)) AS ids
FROM generate_series(1, %(number)s);

-- name: import_strategy
INSERT INTO strategy (run, name, position, kind, family, tier, params)
SELECT %(run)s, %(name)s, count(*) + 1, 'imported', %(name)s, 1, '{}' FROM strategy WHERE run = %(run)s
RETURNING id;

-- name: import_lane
WITH found AS (
  INSERT INTO lane (endpoint, key_fingerprint, model) VALUES ('imported', 'imported', %(model)s)
  ON CONFLICT (endpoint, key_fingerprint, model) DO UPDATE SET model = EXCLUDED.model
  RETURNING id)
INSERT INTO run_lane (run, lane, proven_at) SELECT %(run)s, id, now() FROM found RETURNING lane AS id;

-- name: stage_verdicts
CREATE TEMPORARY TABLE staged_verdict ON COMMIT DROP AS
SELECT mine.trial, mine.task, against.id AS opponent, said.opponent AS against,
       mine.strategy COLLATE "C" < said.opponent COLLATE "C" AS first,
       said.winner = said.opponent AS lost, said.winner = 'tie' AS tie, mine.line, said.place
FROM judged_trial AS mine
CROSS JOIN LATERAL ROWS FROM (
  jsonb_array_elements_text(CASE jsonb_typeof(winner) WHEN 'array' THEN winner ELSE jsonb_build_array(winner) END),
  jsonb_array_elements_text(CASE jsonb_typeof(opponent) WHEN 'array' THEN opponent ELSE jsonb_build_array(opponent) END))
  WITH ORDINALITY AS said (winner, opponent, place)
LEFT JOIN strategy ON strategy.run = %(run)s AND strategy.name = said.opponent
LEFT JOIN trial AS against
  ON against.task = mine.task AND against.strategy = strategy.id AND against.repeat = mine.repeat;

-- name: unknown_opponent
SELECT line FROM staged_verdict WHERE opponent IS NULL ORDER BY line LIMIT 1;

-- name: other_story
-- The rows of both trials say the same verdicts of each other, in whatever order.
WITH side AS (
  SELECT trial, opponent, against, min(line) AS line,
         array_agg(winner ORDER BY winner) AS winners
  FROM (SELECT trial, opponent, against, line,
               CASE WHEN tie THEN 0 WHEN lost THEN opponent ELSE trial END AS winner FROM staged_verdict) AS said
  GROUP BY trial, opponent, against)
SELECT mine.line, mine.against, theirs.line AS other_line
FROM side AS mine LEFT JOIN side AS theirs ON theirs.trial = mine.opponent AND theirs.opponent = mine.trial
WHERE theirs.winners IS DISTINCT FROM mine.winners
ORDER BY mine.line LIMIT 1;

-- name: import_verdicts
-- Each verdict stands in the rows of both trials: it is taken from the one whose strategy comes first.
INSERT INTO verdict (run, task, winner, loser, tie)
SELECT %(run)s, task, CASE WHEN lost THEN opponent ELSE trial END, CASE WHEN lost THEN trial ELSE opponent END, tie
FROM staged_verdict
WHERE first
ORDER BY line, place;

-- name: complete_run
-- The simulated gateway marks its answers, so that nothing of it passes for real anywhere. `prices` names the models
-- whose cost is known for every call that said its tokens; the prices themselves are not.
WITH by_model AS MATERIALIZED (
  SELECT model, bool_and(cost_usd IS NOT NULL OR total_tokens IS NULL) AND count(cost_usd) > 0 AS priced,
         bool_or(response_id LIKE 'chatcmpl-sim-%%') AS simulated,
         min(started_at) AS started_at, max(coalesce(finished_at, started_at)) AS finished_at,
         count(*) FILTER (WHERE status = 'ok') AS ok_calls, count(*) FILTER (WHERE status = 'error') AS error_calls,
         count(*) FILTER (WHERE status = 'unknown') AS unknown_calls, sum(input_tokens) AS input_tokens,
         sum(output_tokens) AS output_tokens, sum(cost_usd) AS cost_usd,
         count(*) FILTER (WHERE status = 'ok' AND total_tokens IS NULL) AS unknown_usage_calls
  FROM call WHERE run = %(run)s GROUP BY model),
completed AS (
  UPDATE run
  SET created_at = seen.started_at, finished_at = seen.finished_at, simulated = seen.simulated,
      experiment = experiment || jsonb_build_object('prices', seen.prices)
  FROM (SELECT min(started_at) AS started_at, max(finished_at) AS finished_at,
               coalesce(bool_or(simulated), false) AS simulated,
               coalesce(jsonb_object_agg(model, NULL) FILTER (WHERE priced), '{}') AS prices FROM by_model) AS seen
  WHERE run.id = %(run)s)
INSERT INTO tally (run, owner, ok_calls, error_calls, unknown_calls, input_tokens, output_tokens, cost_usd,
                   unknown_usage_calls)
SELECT %(run)s, 'import', sum(ok_calls), sum(error_calls), sum(unknown_calls), coalesce(sum(input_tokens), 0),
       coalesce(sum(output_tokens), 0), coalesce(sum(cost_usd), 0), sum(unknown_usage_calls)
FROM by_model;

-- name: analyze_import
-- Before the commit: afterwards each page that is looked at would be marked as committed, and so be written anew.
ANALYZE task, strategy, trial, job, call;

-- Rows in another order.

-- name: keep_rows
CREATE TEMPORARY TABLE kept_row (
  line bigint, task_id text COLLATE "C", strategy text COLLATE "C", repeat int, try int, round int, sample int,
  attempt int, turn int, kind text, used boolean, winner jsonb, opponent jsonb, entry text) ON COMMIT DROP;

-- name: copy_rows
COPY kept_row FROM STDIN;

-- name: repeated_row
SELECT (array_agg(line ORDER BY line))[1] AS first, (array_agg(line ORDER BY line))[2] AS second
FROM kept_row GROUP BY task_id, strategy, repeat, try, round, sample, attempt, turn
HAVING count(*) > 1 ORDER BY 2 LIMIT 1;

-- name: answered_twice
SELECT (array_agg(line ORDER BY line))[1] AS first, (array_agg(line ORDER BY line))[2] AS second
FROM (SELECT task_id, strategy, repeat, try, round, sample, min(line) AS line
      FROM kept_row WHERE used GROUP BY task_id, strategy, repeat, try, round, sample, attempt) AS answer
GROUP BY task_id, strategy, repeat, try, round, sample
HAVING count(*) > 1 ORDER BY 2 LIMIT 1;

-- name: used_in_part
SELECT least(used, unused) AS first, greatest(used, unused) AS second
FROM (SELECT min(line) FILTER (WHERE used) AS used, min(line) FILTER (WHERE NOT used) AS unused
      FROM kept_row GROUP BY task_id, strategy, repeat, try, round, sample, attempt) AS line
WHERE used IS NOT NULL AND unused IS NOT NULL ORDER BY 2 LIMIT 1;

-- name: judged_twice
SELECT began.line AS first, kept_row.line AS second
FROM kept_row
JOIN (SELECT DISTINCT ON (task_id, strategy, repeat) task_id, strategy, repeat, line, winner, opponent
      FROM kept_row WHERE kind = 'generation' ORDER BY task_id, strategy, repeat, line) AS began
  USING (task_id, strategy, repeat)
WHERE kept_row.winner IS DISTINCT FROM began.winner OR kept_row.opponent IS DISTINCT FROM began.opponent
ORDER BY 2 LIMIT 1;

-- name: import_strategies
-- In the order of the file, which is not that of the sorted rows.
INSERT INTO strategy (run, name, position, kind, family, tier, params)
SELECT %(run)s, strategy, row_number() OVER (ORDER BY min(line)), 'imported', strategy, 1, '{}'
FROM kept_row WHERE kind = 'generation' GROUP BY strategy
RETURNING name, id;

-- name: sorted_rows
-- Tasks in the order of the file. A judge's calls of one round belong together, whatever their try.
SELECT kept_row.line, kept_row.entry
FROM kept_row JOIN (SELECT task_id, min(line) AS line FROM kept_row GROUP BY task_id) AS task USING (task_id)
ORDER BY task.line, strategy, repeat, CASE kind WHEN 'generation' THEN try END, round, try, sample, attempt, turn;
