"""always: the ledger's triggers hold in replica mode too, and who makes the auditor's role may take it"""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TRIGGERS = {
    "call": ("call_settled_once", "call_deleted_with_its_run", "call_not_truncated"),
    "job": ("job_answered_once", "job_identity_kept"),
    "run": ("run_identity_kept",),
    "task": ("task_identity_kept",),
    "strategy": ("strategy_identity_kept",),
    "trial": ("trial_identity_kept",),
    "judging": ("judging_identity_kept",),
    "archive": ("archive_kept",),
}

# As in 0002, and then the membership. From Postgres 16 on the maker of a role may give it to itself, but cannot take it
# before; a superuser can anyway. Where an administrator made the role, the administrator gives it.
GRANT = """
CREATE OR REPLACE FUNCTION grant_auditor() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  readable text;
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'paretoken_auditor') THEN
    BEGIN
      CREATE ROLE paretoken_auditor NOLOGIN;
    EXCEPTION
      WHEN duplicate_object OR unique_violation THEN NULL;
      WHEN insufficient_privilege THEN RETURN false;
    END;
  END IF;{membership}
  IF NOT has_schema_privilege('paretoken_auditor', current_schema(), 'USAGE') THEN
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO paretoken_auditor', current_schema());
  END IF;
  SELECT string_agg(oid::regclass::text, ', ') INTO readable FROM pg_class
  WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'v') AND pg_has_role(relowner, 'USAGE');
  EXECUTE format('GRANT SELECT ON %s TO paretoken_auditor', readable);
  EXECUTE format('ALTER DEFAULT PRIVILEGES IN SCHEMA %I GRANT SELECT ON TABLES TO paretoken_auditor', current_schema());
  RETURN true;
END $$
"""
MEMBERSHIP = """
  IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
    BEGIN
      GRANT paretoken_auditor TO CURRENT_USER;
    EXCEPTION
      WHEN insufficient_privilege OR unique_violation THEN NULL;
    END;
  END IF;"""


def upgrade() -> None:
    _fire("ENABLE ALWAYS")
    op.execute(GRANT.replace("{membership}", MEMBERSHIP))
    op.execute("SELECT grant_auditor()")


def downgrade() -> None:
    op.execute(GRANT.replace("{membership}", ""))
    _fire("ENABLE")


def _fire(how: str) -> None:
    for table, triggers in TRIGGERS.items():
        for trigger in triggers:
            op.execute(f"ALTER TABLE {table} {how} TRIGGER {trigger}")
