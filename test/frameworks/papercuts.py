# papercuts.py FOLDER MODELS: what Django does to the tables of dcounter when its models are those of inspectdb, which
# are in the file MODELS; and what examples/django makes of it. There is a counter claps.
import os
import sys
import types

sys.path.insert(0, sys.argv[1])
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
import django  # noqa: E402

django.setup()
from django.db import DatabaseError, connection, connections, transaction  # noqa: E402
from django.db.models import F, Sum  # noqa: E402
from django.utils.timezone import now  # noqa: E402
from shop.models import LikeCount, LikeShard, call  # noqa: E402


def outcome(work):
    try:
        with transaction.atomic():
            work()
    except DatabaseError as error:
        return error.__cause__.pgcode
    except TypeError as error:
        return str(error)
    return "done"


inspected = types.ModuleType("shop.inspected")
with open(sys.argv[2]) as source:
    exec(source.read(), inspected.__dict__)
Claps = inspected.Claps

# the generated column
print("create:", outcome(lambda: Claps.objects.create(key="a", inc=1, dec=0, value=1, updated_at=now())))
call("SELECT dc_incr('claps', 'a', 4)")
call("SELECT dc_compact('claps')")
row = Claps.objects.get(key="a")
row.inc += 1
print("save:", outcome(row.save))
print("read-only save:", outcome(lambda: LikeCount(key="a").save()))
print("read-only create:", outcome(lambda: LikeCount.objects.create(key="a")))
print("read-only delete:", outcome(lambda: LikeCount(key="a").delete()))

# value and shard rows together are exact
value, = LikeCount.objects.filter(key="1").values_list("value", flat=True) or [0]
more = LikeShard.objects.filter(key="1").aggregate(n=Sum(F("inc") - F("dec")))["n"] or 0
print("exact:", value + more == call("SELECT dc_get('post_likes', 1)"))

# F() works, and whoever counts the key in this way waits for all others; who calls dc_incr() does not
other = connections.create_connection("default")
with transaction.atomic():
    Claps.objects.filter(key="a").update(inc=F("inc") + 1)
    with other.cursor() as cursor:
        cursor.execute("SET lock_timeout = '50 ms'")
        cursor.execute("SELECT dc_incr('claps', 'a')")
        print("dc_incr: done")
        try:
            cursor.execute("UPDATE claps SET inc = inc + 1 WHERE key = 'a'")
        except DatabaseError as error:
            print("F:", error.__cause__.pgcode)
other.close()
print("value:", call("SELECT dc_get('claps', 'a')"))
