-- Planning: a run, its tasks, strategies, trials and opening jobs, in one transaction.

-- name: insert_run
INSERT INTO run (run_id, source_platform, base_url, experiment, experiment_hash, prompts_hash, key_fingerprint,
                 simulated)
VALUES (%(run_id)s, %(source_platform)s, %(base_url)s, %(experiment)s, %(experiment_hash)s, %(prompts_hash)s,
        %(key_fingerprint)s, %(simulated)s)
ON CONFLICT (run_id) DO NOTHING
RETURNING id;

-- name: planned_run
-- As it was planned, with the digest of each task.
SELECT id, experiment, experiment_hash, key_fingerprint FROM run WHERE run_id = %(run_id)s;

-- name: find_run
-- Without the digests, which of ten thousand tasks are megabytes.
SELECT id, run_id, source_platform, base_url, state, reason, experiment - 'tasks' AS experiment, experiment_hash, prompts_hash,
       key_fingerprint, simulated, judgings, created_at, finished_at
FROM run WHERE run_id = %(run_id)s;

-- name: list_runs
SELECT run_id, state, reason, simulated, created_at, finished_at FROM run ORDER BY id DESC LIMIT %(most)s;

-- name: adjust_run
-- A run that is continued takes the limits, budgets and the like of the file as it is now; a simulated gateway listens
-- elsewhere each time it starts.
UPDATE run SET base_url = %(base_url)s, experiment = %(experiment)s WHERE id = %(run)s;

-- name: insert_file
INSERT INTO file (sha256, content) VALUES (%(sha256)s, %(content)s) ON CONFLICT DO NOTHING;

-- name: insert_strategy
INSERT INTO strategy (run, name, position, kind, family, tier, params)
VALUES (%(run)s, %(name)s, %(position)s, %(kind)s, %(family)s, %(tier)s, %(params)s);

-- name: insert_lane
-- The update that changes nothing makes RETURNING give the lane that is there already.
WITH found AS (
  INSERT INTO lane (endpoint, key_fingerprint, model)
  VALUES (%(endpoint)s, %(key_fingerprint)s, %(model)s)
  ON CONFLICT (endpoint, key_fingerprint, model) DO UPDATE SET model = EXCLUDED.model
  RETURNING id)
INSERT INTO run_lane (run, lane) SELECT %(run)s, id FROM found
ON CONFLICT DO NOTHING;

-- name: insert_trials
-- In the order repeat, task, strategy: an interrupted run has compared all strategies on what it did.
INSERT INTO trial (run, task, strategy, repeat)
SELECT %(run)s, task.id, strategy.id, repeat
FROM generate_series(1, %(repeats)s) AS repeat
CROSS JOIN task CROSS JOIN strategy
WHERE task.run = %(run)s AND strategy.run = %(run)s
ORDER BY repeat, task.position, strategy.position;

-- name: insert_opening_jobs
-- now() as not_before lets every later round (-infinity) go first: trials that were begun are finished before new ones
-- are.
INSERT INTO job (run, trial, lane, round, sample, reserve_tokens, reserve_cost_usd, not_before)
SELECT trial.run, trial.id, lane.id, 1, opening.sample,
       task.prompt_bytes * opening.task_copies + opening.prompt_bytes + opening.max_tokens,
       (task.prompt_bytes * opening.task_copies + opening.prompt_bytes) * opening.input_usd
         + opening.max_tokens * opening.output_usd,
       now()
FROM trial
JOIN task ON task.id = trial.task
JOIN strategy ON strategy.id = trial.strategy
JOIN unnest(%(strategies)s::text[], %(samples)s::int[], %(models)s::text[], %(prompt_bytes)s::int[],
            %(task_copies)s::int[], %(max_tokens)s::int[], %(input_usd)s::float8[], %(output_usd)s::float8[])
  AS opening (strategy, sample, model, prompt_bytes, task_copies, max_tokens, input_usd, output_usd)
  ON opening.strategy = strategy.name
JOIN run_lane ON run_lane.run = trial.run
JOIN lane ON lane.id = run_lane.lane AND lane.model = opening.model
WHERE trial.run = %(run)s
ORDER BY trial.id, opening.sample;

-- name: change_key
-- Another key has limits, holds and a proof of its own: what is open moves to its lanes, which `insert_lane` has made.
WITH moved AS (
  SELECT old.id AS old, new.id AS new
  FROM run_lane
  JOIN lane AS old ON old.id = run_lane.lane AND old.key_fingerprint <> %(key_fingerprint)s
  JOIN lane AS new ON new.endpoint = old.endpoint AND new.model = old.model
                  AND new.key_fingerprint = %(key_fingerprint)s
  WHERE run_lane.run = %(run)s),
open AS MATERIALIZED (
  SELECT job.id, moved.new FROM job JOIN moved ON moved.old = job.lane
  WHERE job.run = %(run)s AND job.state NOT IN ('ok')
  ORDER BY job.id FOR NO KEY UPDATE OF job),
jobs AS (UPDATE job SET lane = open.new FROM open WHERE job.id = open.id),
left_behind AS (DELETE FROM run_lane USING moved WHERE run_lane.run = %(run)s AND run_lane.lane = moved.old)
UPDATE run SET key_fingerprint = %(key_fingerprint)s WHERE id = %(run)s;
