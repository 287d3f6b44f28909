-- The role that processes connect as where they are not to own the tables. What is granted is what docs/audit.md says.

-- name: worker_role_exists
SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'paretoken_worker') AS there;

-- name: make_worker_role
CREATE ROLE paretoken_worker LOGIN;

-- name: grant_worker_tables
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO paretoken_worker;

-- name: grant_worker_sequences
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO paretoken_worker;
