from alembic import context
from models import Base
from sqlalchemy import create_engine


def include_object(object, name, type_, reflected, compare_to):
    """Leaves the tables of dcounter alone: they say so in their comments."""
    return not (type_ == "table" and reflected and (object.comment or "").startswith("dcounter: "))


engine = create_engine(context.config.get_main_option("sqlalchemy.url"))
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=Base.metadata, include_object=include_object)
    with context.begin_transaction():
        context.run_migrations()
