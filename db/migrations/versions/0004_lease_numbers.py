"""lease numbers: a worker's leases are told apart, so that nothing prepared under one is sent under the next"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "worker",
        sa.Column(
            "lease_no",
            sa.Integer(),
            server_default="1",
            nullable=False,
            comment="grows when a lease was over",
        ),
        # Databases of the days before this revision have the column, made by an earlier form of 0001.
        if_not_exists=True,
    )


def downgrade() -> None:
    op.drop_column("worker", "lease_no")
