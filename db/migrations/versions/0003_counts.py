"""counts: indexes by which a large run is counted and paged without reading its rows"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "trial_state_idx",
        "trial",
        ["run", "state", "id"],
        unique=False,
        postgresql_include=["task", "strategy", "confirmed_success"],
    )
    op.drop_index("trial_run_idx", table_name="trial")
    op.create_index(
        "call_failed_idx",
        "call",
        ["run", "error"],
        unique=False,
        postgresql_where=sa.text("status IN ('error', 'unknown')"),
    )


def downgrade() -> None:
    op.drop_index(
        "call_failed_idx", table_name="call", postgresql_where=sa.text("status IN ('error', 'unknown')")
    )
    op.create_index("trial_run_idx", "trial", ["run"], unique=False)
    op.drop_index(
        "trial_state_idx", table_name="trial", postgresql_include=["task", "strategy", "confirmed_success"]
    )
