"""The first tables of those who log in."""

import sqlalchemy as sa
from alembic import op

revision = "a0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "credentials",
        sa.Column("account", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("password", sa.String(256)),
        sa.Column("email", sa.String(320), unique=True),
        sa.Column("issuer", sa.String(512)),
        sa.Column("subject", sa.String(255)),
        sa.Column("disabled", sa.Boolean, nullable=False),
        sa.UniqueConstraint("issuer", "subject"),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("account", sa.Integer, nullable=False, index=True),
        sa.Column("hash", sa.String(256), nullable=False),
        sa.Column("label", sa.String(100), nullable=False),
        sa.Column("created_at", sa.Integer, nullable=False),
        sa.Column("expires_at", sa.Integer),
        sa.Column("revoked_at", sa.Integer),
    )
    op.create_table(
        "login_sessions",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("account", sa.Integer, nullable=False, index=True),
        sa.Column("csrf", sa.String(64), nullable=False),
        sa.Column("created_at", sa.Integer, nullable=False),
        sa.Column("seen_at", sa.Integer, nullable=False),
    )
    op.create_table(
        "openid_attempts",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("browser", sa.String(64), nullable=False),
        sa.Column("nonce", sa.String(64), nullable=False),
        sa.Column("verifier", sa.String(128), nullable=False),
        sa.Column("created_at", sa.Integer, nullable=False),
    )
    op.create_table(
        "budget_requests",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("account", sa.Integer, nullable=False),
        sa.Column("analyst", sa.String(200), nullable=False),
        sa.Column("dataset", sa.String(200), nullable=False),
        sa.Column("epsilon", sa.Float, nullable=False),
        sa.Column("reason", sa.String(1000), nullable=False),
        sa.Column("asked_at", sa.Integer, nullable=False),
        sa.Column("decided_at", sa.Integer),
        sa.Column("decided_by", sa.String(200)),
        sa.Column("granted", sa.Boolean),
    )


def downgrade() -> None:
    """Remove the tables."""
    for name in ("budget_requests", "openid_attempts", "login_sessions", "api_keys", "credentials"):
        op.drop_table(name)
