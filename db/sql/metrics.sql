-- What an operator watches, over all runs that are not over. Nothing here changes anything.

-- name: open_runs
SELECT state, count(*) AS runs FROM run WHERE state IN ('running', 'paused') GROUP BY state;

-- name: open_jobs
SELECT job.state, count(*) AS jobs FROM job JOIN run ON run.id = job.run
WHERE run.state IN ('running', 'paused') AND job.state IN ('pending', 'queued', 'running')
GROUP BY job.state;

-- name: lanes_at_work
-- The lanes of running runs, `most` of them or all (NULL), as the limiter names them, with the seconds for which their
-- gateway asked everybody to wait.
SELECT DISTINCT lane.id AS lane, lane.model,
       concat_ws(':', lane.endpoint, lane.key_fingerprint, lane.model) AS lane_name,
       greatest(coalesce(extract(epoch FROM lane.hold_until - now()), 0), 0)::float8 AS hold_s
FROM run JOIN run_lane ON run_lane.run = run.id JOIN lane ON lane.id = run_lane.lane
WHERE run.state = 'running' ORDER BY lane.id LIMIT %(most)s;
