"""Likes, a flash sale, views and unread messages with psycopg 3.

    psql -d shop -f ../schema.sql
    python3 shop.py dbname=shop

Each function takes a connection in autocommit mode, or one that is in a transaction already, of which it is a part then.
"""
import sys
import uuid

import psycopg


# Likes

def like(conn, post_id, fan):
    """True if the fan did not like it before: a second click, or the same request again, changes nothing."""
    cursor = conn.execute("INSERT INTO likes (post_id, fan) VALUES (%s, %s) ON CONFLICT DO NOTHING", (post_id, fan))
    return cursor.rowcount == 1


def unlike(conn, post_id, fan):
    conn.execute("DELETE FROM likes WHERE post_id = %s AND fan = %s", (post_id, fan))


def likes(conn, post_ids):
    """{post_id: likes} of all posts of a page, in one call."""
    return dict(conn.execute("SELECT key, value FROM dc_get_many('post_likes', %s)", (post_ids,)))


# A flash sale

def hold(conn, event, qty=1, hold_id=None):
    """Sets seats aside while the buyer pays. The id of the hold, or None: sold out.

    If the answer gets lost, ask again with the same hold_id: it is the same hold.
    """
    return conn.execute("SELECT dc_hold('seats', %s, %s, '10 minutes', %s)", (event, qty, hold_id or uuid.uuid4())).fetchone()[0]


def buy(conn, hold_id, buyer):
    """The buyer has paid. An error if the hold has ended, and no ticket then; called again, nothing happens."""
    with conn.transaction():
        conn.execute("INSERT INTO ticket (hold_id, buyer) VALUES (%s, %s) ON CONFLICT DO NOTHING", (hold_id, buyer))
        conn.execute("SELECT dc_hold_confirm('seats', %s)", (hold_id,))


def release(conn, hold_id):
    """The buyer does not want it. Who just goes away loses the hold after ten minutes."""
    conn.execute("SELECT dc_hold_release('seats', %s)", (hold_id,))


def left(conn, event):
    return conn.execute("SELECT dc_get('seats', %s)", (event,)).fetchone()[0]


# Views

def view(conn, page):
    conn.execute("SELECT dc_incr('views', %s)", (page,))


def views(conn, page):
    return conn.execute("SELECT dc_get('views', %s)", (page,)).fetchone()[0]


# Unread messages

def post_message(conn, channel, author, body):
    with conn.transaction():
        conn.execute("INSERT INTO message (channel, author, body) VALUES (%s, %s, %s)", (channel, author, body))
        conn.execute("SELECT dc_incr('messages', %s)", (channel,))


def unread(conn, member, channels):
    """{channel: (unread, upto)}; give upto to mark_read() when the member has seen them."""
    rows = conn.execute("SELECT key, unread, upto FROM dc_unread('seen', %s::text, %s)", (member, channels))
    return {channel: (n, upto) for channel, n, upto in rows}


def mark_read(conn, member, channel, upto):
    conn.execute("SELECT dc_mark_read('seen', %s::text, %s, %s)", (member, channel, upto))


def tour(conn):
    print("likes:", like(conn, 42, "ann"), like(conn, 42, "ann"), like(conn, 42, "ben"), likes(conn, [42, 43]))
    unlike(conn, 42, "ben")
    print("taken back:", likes(conn, [42, 43]))

    conn.execute("SELECT dc_restock('seats', 'opening night', 2)")
    first, second, third = (hold(conn, "opening night") for _ in range(3))
    print("third buyer:", third)
    buy(conn, first, "ann")
    buy(conn, first, "ann")
    release(conn, second)
    try:
        buy(conn, second, "ben")
    except psycopg.errors.ObjectNotInPrerequisiteState as error:
        print("released:", error.sqlstate)
    print("sold:", conn.execute("SELECT count(*) FROM ticket").fetchone()[0], "left:", left(conn, "opening night"))

    for _ in range(3):
        view(conn, "home")
    print("views:", views(conn, "home"))

    post_message(conn, "general", "ann", "hello")
    post_message(conn, "general", "ann", "anybody here?")
    seen = unread(conn, "ben", ["general", "random"])
    print("unread:", seen)
    mark_read(conn, "ben", "general", seen["general"][1])
    print("read:", unread(conn, "ben", ["general"]))


if __name__ == "__main__":
    with psycopg.connect(sys.argv[1], autocommit=True) as connection:
        tour(connection)
