from sqlalchemy import BigInteger, Column, Text
from sqlalchemy.orm import declarative_base

Base = declarative_base()


class Like(Base):
    __tablename__ = "likes"
    post_id = Column(BigInteger, primary_key=True, autoincrement=False)
    fan = Column(Text, primary_key=True)
