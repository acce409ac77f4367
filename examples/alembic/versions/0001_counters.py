import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade():
    op.create_table(
        "likes",
        sa.Column("post_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("fan", sa.Text, primary_key=True),
    )
    op.execute("CREATE EXTENSION IF NOT EXISTS dcounter")
    op.execute("SELECT dc_create('post_likes')")
    op.execute("SELECT dc_bind('post_likes', 'likes', key => 'post_id', build => 'now')")


def downgrade():
    op.execute("SELECT dc_unbind('post_likes')")
    op.execute("SELECT dc_drop('post_likes')")
    op.drop_table("likes")
