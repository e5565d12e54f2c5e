"""SQLAlchemy's story: story.py URL STATEMENTS.json

What it sends, over psycopg, is noted below it, at the calls of libpq.
"""

import enum
import sys
import threading
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import libpq
from said import Story

from sqlalchemy import ForeignKey, Index, Numeric, String, create_engine, func, insert, select, text, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError, IntegrityError, TimeoutError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, selectinload
from sqlalchemy.types import TIMESTAMP, Interval, LargeBinary

url, path = sys.argv[1:]
story = Story("sqlalchemy")
equal = story.equal


class Base(DeclarativeBase):
    pass


class Mood(enum.Enum):
    good = 1
    bad = 2


class Shop(Base):
    __tablename__ = "sqlalchemy_shops"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(50), unique=True)
    version: Mapped[int] = mapped_column()
    opened: Mapped[datetime] = mapped_column(TIMESTAMP(timezone=True), server_default=func.now())
    items: Mapped[list["Item"]] = relationship(back_populates="shop", cascade="all, delete-orphan")
    __mapper_args__ = {"version_id_col": version}


class Item(Base):
    __tablename__ = "sqlalchemy_items"
    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    shop_id: Mapped[int] = mapped_column(ForeignKey("sqlalchemy_shops.id"))
    name: Mapped[str]
    price: Mapped[Decimal | None] = mapped_column(Numeric(10, 2))
    tags: Mapped[list[str]] = mapped_column(postgresql.ARRAY(String))
    sizes: Mapped[list[int]] = mapped_column(postgresql.ARRAY(postgresql.INTEGER))
    more: Mapped[dict] = mapped_column(postgresql.JSONB)
    made: Mapped[datetime] = mapped_column(TIMESTAMP(timezone=True))
    day: Mapped[date | None]
    lasting: Mapped[timedelta | None] = mapped_column(Interval)
    data: Mapped[bytes | None] = mapped_column(LargeBinary)
    mood: Mapped[Mood | None] = mapped_column(postgresql.ENUM(Mood, name="sqlalchemy_mood"))
    moods: Mapped[list[Mood]] = mapped_column(postgresql.ARRAY(postgresql.ENUM(Mood, name="sqlalchemy_mood")))
    shop: Mapped[Shop] = relationship(back_populates="items")
    __table_args__ = (Index("sqlalchemy_items_name", "name"),)


class Event(Base):
    __tablename__ = "sqlalchemy_events"
    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str]


class Copied(Base):
    __tablename__ = "sqlalchemy_copied"
    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str]


MADE = datetime(2024, 2, 29, 12, 30, 15, 250000, tzinfo=UTC)


def engine(part, timezone="UTC", **more):
    application = f"sqlalchemy-{part}"
    values = {"application_name": application, "options": f"-c timezone={timezone}", **more.pop("connect_args", {})}
    return create_engine(url.replace("postgres://", "postgresql+psycopg://"), connect_args=values, **more)


def key(n):
    return uuid.UUID(int=n)


def item(n, **more):
    values = {
        "id": key(n), "name": f"it's \\ \"ü\" 日本 :x %s {n}", "price": Decimal(n % 100) / 4, "tags": ["a", 'b "c"', "", "NULL"],
        "sizes": [1, -2, n], "more": {"n": n, "none": None, "list": [1.5, True]}, "made": MADE + timedelta(days=n),
        "day": date(2024, 2, 29), "lasting": timedelta(days=n, seconds=1.5), "data": b"\x00\xff'\\",
        "mood": Mood.good if n % 2 else None, "moods": [Mood.bad, Mood.good],
    }  # fmt: skip
    return {**values, **more}


def fails(sqlstate, action):
    try:
        action()
    except DBAPIError as found:
        story.failed(found.orig, sqlstate, "an error")
        return
    sys.exit(f"sqlalchemy: {sqlstate} did not come")


def schema():
    one = engine("schema")
    with one.begin() as connection:
        Base.metadata.drop_all(connection, checkfirst=True)
    # The types are made anew here, and are not where Alembic or a copy has them.
    with one.begin() as connection:
        Base.metadata.create_all(connection)
    one.dispose()


def units_of_work(part, first, **more):
    one = engine(part, timezone="Asia/Kolkata", **more)
    with Session(one) as session:
        shop = Shop(name=f"shop {part}", items=[Item(**item(first + n)) for n in range(10)])
        session.add(shop)
        session.flush()
        shop.items[3].price += 1
        shop.items[4].mood = Mood.bad
        session.delete(shop.items[5])
        session.commit()
        equal([one.price for one in session.get(Shop, shop.id).items if one.id == key(first + 3)][0] % 1, Decimal("0.75"), "a price")
        session.rollback()
        found = session.scalars(select(Item).where(Item.id == key(first + 7))).one()
        expected = item(first + 7)
        for name in ("name", "tags", "sizes", "more", "made", "day", "lasting", "data", "mood", "moods"):
            equal(getattr(found, name), expected[name], name)
        shops = session.scalars(select(Shop).options(selectinload(Shop.items)).where(Shop.id == shop.id)).all()
        equal([len(one.items) for one in shops], [9], "what a shop has")
        equal(session.scalar(select(func.count()).where(Item.tags.contains(["a"]), Item.more["n"].as_integer() >= first, Item.shop_id == shop.id)), 9, "arrays and JSON")
        session.commit()
        with session.begin():
            shop.name += " 2"
            for n in range(3):
                try:
                    with session.begin_nested():
                        session.add(Item(**item(first + 20 + n // 2, shop_id=shop.id)))
                except IntegrityError as error:
                    story.failed(error.orig, "23505", "a second row with one key")
        equal(len(session.scalars(select(Item).where(Item.shop_id == shop.id).with_for_update(skip_locked=True)).all()), 11, "what stayed")
        session.execute(update(Item).where(Item.shop_id == shop.id).values(price=Item.price * 2), execution_options={"synchronize_session": False})
        session.rollback()
        fails("23503", lambda: session.execute(insert(Item).values(item(first + 50, shop_id=-1))))
        fails("25P02", lambda: session.connection().exec_driver_sql("SELECT 1"))
        session.rollback()
        fails("22P02", lambda: session.execute(text("SELECT CAST(:mood AS sqlalchemy_mood)"), {"mood": "none"}))
        session.rollback()
    one.dispose()


def many():
    one = engine("many", insertmanyvalues_page_size=40)
    with one.begin() as connection:
        # In pages, with the keys that the server made, in order.
        keys = connection.scalars(insert(Event).returning(Event.id, sort_by_parameter_order=True), [{"text": f"page {n}"} for n in range(100)]).all()
        equal(keys, sorted(keys), "keys in order")
        connection.execute(insert(Event), [{"text": f"many {n}"} for n in range(30)])
        upsert = postgresql.insert(Shop).values(name="shop upsert", version=1)
        upsert = upsert.on_conflict_do_update(index_elements=["name"], set_={"version": Shop.version + upsert.excluded.version})
        versions = [connection.scalar(upsert.returning(Shop.version)) for _ in range(3)]
        equal(versions, [1, 2, 3], "upserts")
    with one.connect() as connection:
        # A cursor on the server; one that is left half way.
        walk = connection.execution_options(yield_per=25).execute(select(Event.text).order_by(Event.id))
        equal([len(part) for part in walk.partitions()], [25] * 5 + [5], "parts of a cursor")
        walk = connection.execution_options(stream_results=True, max_row_buffer=10).execute(select(Event.text))
        equal(len(walk.fetchmany(7)), 7, "the first of a cursor")
        walk.close()
    with one.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for n in range(8):
            equal(connection.scalar(text("SELECT CAST(:n AS int) + 1"), {"n": n}), n + 1, "a sum")
        connection.execute(text("VACUUM sqlalchemy_events"))
    with one.connect().execution_options(isolation_level="SERIALIZABLE", postgresql_readonly=True, postgresql_deferrable=True) as connection:
        equal(connection.scalar(select(func.count()).select_from(Event)), 130, "events")
        fails("25006", lambda: connection.execute(insert(Event).values(text="refused")))
    one.dispose()


def driver():
    """What the driver does beside: COPY, and a pipeline."""
    one = engine("driver")
    raw = one.raw_connection()
    cursor = raw.cursor()
    with cursor.copy("COPY sqlalchemy_copied (text) FROM STDIN") as copy:
        copy.write("copied 1\ncopied 2\n")
    with raw.driver_connection.pipeline():
        for n in range(5):
            cursor.execute("INSERT INTO sqlalchemy_events (text) VALUES (%s)", (f"pipeline {n}",))
    raw.commit()
    raw.close()
    one.dispose()


def pooled():
    """Six threads, and two connections, one beyond the pool's size; a third is refused."""
    one = engine("pool", pool_size=1, max_overflow=1, pool_timeout=0.2, pool_pre_ping=True)
    held = [one.connect(), one.connect()]
    try:
        one.connect()
        sys.exit("sqlalchemy: a third connection was given")
    except TimeoutError:
        story.checks += 1
    for connection in held:
        connection.close()
    one.dispose()
    one = engine("pool", pool_size=2, max_overflow=0, pool_pre_ping=True)

    def work(place):
        for n in range(10):
            with Session(one) as session, session.begin():
                session.add(Event(text=f"event {place} {n}"))

    threads = [threading.Thread(target=work, args=(place,)) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with one.connect() as connection:
        equal(connection.scalar(select(func.count()).where(Event.text.startswith("event"))), 60, "events of a pool")
    one.dispose()


schema()
units_of_work("units", 0)
units_of_work("prepared", 1000, connect_args={"prepare_threshold": 0})
units_of_work("client", 2000, connect_args={"prepare_threshold": None}, isolation_level="REPEATABLE READ")
many()
driver()
pooled()
story.connections = libpq.connections
story.end(path)
