-- What a worker needs to know about a run, read once and kept.

-- name: read_run
-- Without the digest of its tasks, which of ten thousand tasks is megabytes.
SELECT id, run_id, base_url, experiment - 'tasks' AS experiment, key_fingerprint, simulated
FROM run WHERE id = %(run)s;

-- name: read_strategies
SELECT id, name, kind, params FROM strategy WHERE run = %(run)s;

-- name: read_tasks
SELECT id, task_id, category, goal, files, checks FROM task WHERE id = ANY(%(tasks)s);

-- name: read_files
SELECT sha256, content FROM file WHERE sha256 = ANY(%(hashes)s);
