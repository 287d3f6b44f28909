"""judging slots: the index of a judging's jobs leaves out those of trials, which are nearly all"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

INDEX = "job_judging_slot_key"


def upgrade() -> None:
    op.drop_index(INDEX, table_name="job")
    op.create_index(
        INDEX, "job", ["judging", "sample"], unique=True, postgresql_where=sa.text("judging IS NOT NULL")
    )


def downgrade() -> None:
    op.drop_index(INDEX, table_name="job", postgresql_where=sa.text("judging IS NOT NULL"))
    op.create_index(INDEX, "job", ["judging", "sample"], unique=True)
