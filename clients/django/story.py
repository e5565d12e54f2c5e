"""Django's story: story.py URL STATEMENTS.json

What it sends is noted below it, at the calls of libpq.
"""

import sys
import threading
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import libpq
from said import Story

import django
from django.conf import settings

url, path = sys.argv[1:]
story = Story("django")
equal = story.equal
parts = urlsplit(url)


def database(name, **more):
    options = {"application_name": f"django-{name}", **{key: values[0] for key, values in parse_qs(parts.query).items()}}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path[1:],
        "USER": parts.username,
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname,
        "PORT": parts.port,
        "OPTIONS": {**options, **more},
    }


settings.configure(
    # Values are written into the text; values are sent as parameters; a pool.
    DATABASES={
        "default": database("default"),
        "server": database("server", server_side_binding=True),
        "prepared": database("prepared", server_side_binding=True, prepare_threshold=2),
        "serializable": database("serializable", isolation_level=3),
        "pool": database("pool", pool={"min_size": 2, "max_size": 3}),
    },
    INSTALLED_APPS=["django.contrib.postgres"],
    USE_TZ=True,
    TIME_ZONE="Europe/Berlin",
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()

from django.contrib.postgres.fields import ArrayField, DateTimeRangeField
from django.db import DataError, IntegrityError, connections, models, transaction
from django.db.models import Count, F, Q, Sum
from django.db.models.functions import Lower, TruncDay
from django.utils import timezone


class Mood(models.Field):
    """A type of the user's own."""

    def db_type(self, connection):
        return "django_mood"


class Shop(models.Model):
    name = models.CharField(max_length=50, unique=True)
    opened = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "story"
        db_table = "django_shops"


class Item(models.Model):
    id = models.UUIDField(primary_key=True)
    shop = models.ForeignKey(Shop, on_delete=models.CASCADE)
    name = models.TextField()
    price = models.DecimalField(max_digits=10, decimal_places=2, null=True)
    tags = ArrayField(models.TextField(), default=list)
    more = models.JSONField(default=dict)
    made = models.DateTimeField()
    lasting = models.DurationField(null=True)
    data = models.BinaryField(null=True)
    sold = DateTimeRangeField(null=True)
    mood = Mood(null=True)

    class Meta:
        app_label = "story"
        db_table = "django_items"
        indexes = [models.Index(fields=["name"], name="django_items_name")]
        constraints = [models.CheckConstraint(condition=Q(price__gte=0), name="django_items_price")]


class Event(models.Model):
    text = models.TextField()
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "story"
        db_table = "django_events"


MADE = datetime(2024, 2, 29, 12, 30, 15, 250000, tzinfo=UTC)


def key(n):
    return uuid.UUID(int=n)


def fails(error, sqlstate, action):
    try:
        action()
    except error as found:
        story.failed(found.__cause__, sqlstate, "an error")
        return
    sys.exit(f"django: {sqlstate} did not come")


def schema():
    with connections["default"].cursor() as cursor:
        for table in ("items", "shops", "events"):
            cursor.execute(f"DROP TABLE IF EXISTS django_{table}")
        # The type stays, so that a copy of the database has it under another number.
        cursor.execute("SELECT count(*) FROM pg_type WHERE typname = %s", ["django_mood"])
        if not cursor.fetchone()[0]:
            cursor.execute("CREATE TYPE django_mood AS ENUM ('good', 'bad')")
    with connections["default"].schema_editor() as editor:
        for model in (Shop, Item, Event):
            editor.create_model(model)
    field = models.IntegerField(default=7)
    field.set_attributes_from_name("stock")
    with connections["default"].schema_editor() as editor:
        editor.add_field(Shop, field)
    with connections["default"].schema_editor() as editor:
        editor.remove_field(Shop, field)


def items(alias, first):
    """The same by each way to send values."""
    shop = Shop.objects.using(alias).create(name=f"shop {alias}")
    made = [
        Item(
            id=key(first + n), shop=shop, name=f"it's \\ \"ü\" 日本 {n} %s", price=Decimal(n) / 4, tags=["a", 'b "c"', "", "NULL"],
            more={"n": n, "text": "it's", "none": None, "list": [1.5, True]}, made=MADE + timedelta(days=n),
            lasting=timedelta(days=n, seconds=1.5), data=b"\x00\xff'\\", sold=(MADE, MADE + timedelta(hours=n + 1)),
            mood="good" if n % 2 else None,
        )
        for n in range(25)
    ]  # fmt: skip
    Item.objects.using(alias).bulk_create(made, batch_size=10)
    Item.objects.using(alias).bulk_create(made, update_conflicts=True, unique_fields=["id"], update_fields=["price"])
    one = Item.objects.using(alias).get(pk=key(first + 3))
    equal((one.name, one.price, one.tags), (made[3].name, Decimal("0.75"), made[3].tags), "an item")
    equal((one.more, one.made, one.lasting), (made[3].more, made[3].made, made[3].lasting), "an item's rest")
    equal((bytes(one.data), one.sold.lower, one.mood), (b"\x00\xff'\\", MADE, "good"), "an item's bytes")
    one.price = F("price") + 1
    one.save(update_fields=["price"])
    found = Item.objects.using(alias).filter(shop=shop)
    equal(found.filter(tags__contains=["a"], more__n__gte=20).count(), 5, "arrays and JSON")
    equal(found.filter(name__icontains="日本 1").count(), 11, "a pattern")
    equal(found.annotate(low=Lower("name")).exclude(low="x").order_by("-made")[5:8].values_list("more__n", flat=True)[0], 19, "a page")
    equal(found.aggregate(Sum("price"), Count("mood")), {"price__sum": Decimal("76.00"), "mood__count": 12}, "sums")
    with timezone.override("America/New_York"):
        days = found.annotate(day=TruncDay("made")).values("day").annotate(count=Count("pk")).order_by("day")
        equal(len(days), 25, "days in another time zone")
    equal(found.filter(made__range=(MADE, MADE + timedelta(days=2))).update(price=None, mood="bad"), 3, "rows updated")
    equal(found.bulk_update([made[9], made[8]], ["name", "price"]), 2, "rows of bulk_update")
    equal(found.filter(price__isnull=True).delete()[0], 3, "rows deleted")
    shop, new = Shop.objects.using(alias).update_or_create(name=f"shop {alias}", defaults={"name": f"shop {alias} 2"})
    equal((new, len(found.select_related("shop").in_bulk())), (False, 22), "what there was")
    # A cursor on the server, half read; and all of it.
    with transaction.atomic(using=alias):
        equal(len(list(zip(range(5), found.order_by("pk").iterator(chunk_size=5)))), 5, "a part of a cursor")
    equal(sum(1 for _ in found.iterator(chunk_size=8)), 22, "a cursor")
    raw = Item.objects.using(alias).raw("SELECT * FROM django_items WHERE shop_id = %s AND price > %s", [shop.pk, 5])
    equal(len(list(raw)), 4, "a query of one's own")


def transactions(alias, first):
    done = []
    with transaction.atomic(using=alias):
        transaction.on_commit(lambda: done.append(1), using=alias)
        shop = Shop.objects.using(alias).select_for_update().filter(name__startswith="shop").order_by("name")[0]
        for n in range(3):
            try:
                with transaction.atomic(using=alias):
                    Item.objects.using(alias).create(id=key(first + 500 + n), shop=shop, name="inner", made=MADE)
                    if n:
                        Item.objects.using(alias).filter(name="inner").update(price=-1)
            except IntegrityError as error:
                story.failed(error.__cause__, "23514", "a price below zero")
    equal(done, [1], "what comes after the commit")
    equal(Item.objects.using(alias).filter(name="inner", pk__gte=key(first), pk__lt=key(first + 1000)).count(), 1, "what stayed")

    def all_undone():
        with transaction.atomic(using=alias):
            Item.objects.using(alias).all().delete()
            connections[alias].cursor().execute("SELECT 1 / %s", [0])

    fails(DataError, "22012", all_undone)
    fails(IntegrityError, "23505", lambda: Shop.objects.using(alias).create(name=shop.name))
    fails(DataError, "22P02", lambda: Item.objects.using(alias).filter(pk=key(first + 1)).update(mood="no such mood"))
    with connections[alias].cursor() as cursor:
        cursor.executemany("INSERT INTO django_events (text, at) VALUES (%s, %s)", [(f"many {n}", MADE) for n in range(20)])
        cursor.execute("SELECT count(*) FROM django_events WHERE text LIKE 'many %%' AND at = %s", [MADE])
        equal(cursor.fetchone()[0] % 20, 0, "rows of executemany")


def pooled():
    """Five threads, and three connections; each fills in keys of one sequence."""

    def work(place):
        for n in range(10):
            with transaction.atomic(using="pool"):
                Event.objects.using("pool").create(text=f"event {place} {n}")
            connections["pool"].close()

    threads = [threading.Thread(target=work, args=(place,)) for place in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(Event.objects.using("pool").filter(text__startswith="event").count(), 50, "events of a pool")


schema()
for place, alias in enumerate(("default", "server", "prepared", "serializable")):
    items(alias, 1000 * place)
    transactions(alias, 1000 * place)
pooled()
connections.close_all()
connections["pool"].close_pool()
story.connections = libpq.connections
story.end(path)
