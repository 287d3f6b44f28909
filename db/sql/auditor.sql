-- The auditor's role, and runs that leave: the functions are made by the migrations.

-- name: grant_auditor
SELECT grant_auditor() AS granted;

-- name: auditor_can_read
SELECT coalesce((SELECT has_table_privilege(oid, 'call', 'SELECT') FROM pg_roles WHERE rolname = 'paretoken_auditor'),
                false) AS granted;

-- name: archive_run
SELECT archive_run(%(run_id)s, %(calls)s, %(total_tokens)s, %(sha256)s) AS calls;
