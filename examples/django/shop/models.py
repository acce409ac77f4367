from django.db import connection, models, transaction
from django.db.models import BigIntegerField, F, Func


def call(sql, *params):
    """The value of a function of dcounter."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchone()[0]


# The tables of dcounter, read only. dc_create() creates them in a migration; save() would fail at the generated column.

class ReadOnly(models.Model):
    class Meta:
        abstract = True
        managed = False

    def save(self, *args, **kwargs):
        raise TypeError("counters change by dc_incr()")

    def delete(self, *args, **kwargs):
        raise TypeError("counters are removed by dc_delete()")


class LikeCount(ReadOnly):
    key = models.TextField(primary_key=True)
    value = models.BigIntegerField(editable=False)
    updated_at = models.DateTimeField(editable=False)

    class Meta(ReadOnly.Meta):
        db_table = "post_likes"


class LikeShard(ReadOnly):
    """What is not in LikeCount.value yet. Several rows have one key: filter() and aggregate() are right, get() is not."""

    key = models.TextField(primary_key=True)
    inc = models.BigIntegerField(editable=False)
    dec = models.BigIntegerField(editable=False)

    class Meta(ReadOnly.Meta):
        db_table = "post_likes_shard"


class Hold(ReadOnly):
    """Seats that are set aside, and those that were until yesterday: for the admin, and reports."""

    hold_id = models.UUIDField(primary_key=True)
    key = models.TextField()
    qty = models.BigIntegerField()
    state = models.TextField()
    expires_at = models.DateTimeField()

    class Meta(ReadOnly.Meta):
        db_table = "seats_hold"


# Likes

class PostQuerySet(models.QuerySet):
    def with_likes(self):
        """Post.objects.with_likes().order_by("-likes"); exact, one call of dc_get() for each row."""
        return self.annotate(likes=Func(F("id"), template="dc_get('post_likes', %(expressions)s)", output_field=BigIntegerField()))


class Post(models.Model):
    title = models.TextField()
    objects = PostQuerySet.as_manager()

    def like(self, fan):
        """True if the fan did not like it before: a second click, or the same request again, changes nothing."""
        return Like.objects.get_or_create(post=self, fan=fan)[1]

    def unlike(self, fan):
        Like.objects.filter(post=self, fan=fan).delete()


class Like(models.Model):
    post = models.ForeignKey(Post, models.CASCADE, related_name="+")
    fan = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["post", "fan"], name="one_like_of_a_fan")]


# A flash sale

class Ticket(models.Model):
    hold_id = models.UUIDField(primary_key=True)
    buyer = models.TextField()


def hold(event, hold_id, qty=1):
    """Sets seats aside while the buyer pays. The hold_id, or None: sold out.

    If the answer gets lost, ask again with the same hold_id: it is the same hold.
    """
    return call("SELECT dc_hold('seats', %s, %s, '10 minutes', %s)", event, qty, hold_id)


def buy(hold_id, buyer):
    """The buyer has paid. An error if the hold has ended, and no ticket then; called again, nothing happens."""
    with transaction.atomic():
        Ticket.objects.get_or_create(hold_id=hold_id, defaults={"buyer": buyer})
        call("SELECT dc_hold_confirm('seats', %s)", hold_id)


def release(hold_id):
    """The buyer does not want it. Who just goes away loses the hold after ten minutes."""
    call("SELECT dc_hold_release('seats', %s)", hold_id)


def left(event):
    return call("SELECT dc_get('seats', %s)", event)


# Views

def view(page):
    call("SELECT dc_incr('views', %s)", page)


def views(page):
    return call("SELECT dc_get('views', %s)", page)


# Unread messages

class Message(models.Model):
    channel = models.TextField()
    author = models.TextField()
    body = models.TextField()


def post_message(channel, author, body):
    with transaction.atomic():
        Message.objects.create(channel=channel, author=author, body=body)
        call("SELECT dc_incr('messages', %s)", channel)


def unread(member, channels):
    """{channel: (unread, upto)}; give upto to mark_read() when the member has seen them."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT key, unread, upto FROM dc_unread('seen', %s::text, %s)", (member, channels))
        return {channel: (n, upto) for channel, n, upto in cursor}


def mark_read(member, channel, upto):
    call("SELECT dc_mark_read('seen', %s::text, %s, %s)", member, channel, upto)
