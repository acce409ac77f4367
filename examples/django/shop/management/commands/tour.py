import uuid

from django.core.management.base import BaseCommand
from django.db import DatabaseError
from shop.models import (Hold, Post, Ticket, buy, call, hold, left, mark_read, post_message, release, unread,
                         view, views)


class Command(BaseCommand):
    help = "Likes, a flash sale, views and unread messages, in a database that was just migrated."

    def handle(self, **options):
        post, other = Post.objects.create(title="Hello"), Post.objects.create(title="World")
        likes = Post.objects.with_likes().order_by("id").values_list("likes", flat=True)
        print("likes:", post.like("ann"), post.like("ann"), post.like("ben"), list(likes))
        post.unlike("ben")
        print("taken back:", list(likes.all()))

        call("SELECT dc_restock('seats', 'opening night', 2)")
        first, second, third = (hold("opening night", uuid.uuid4()) for _ in range(3))
        print("third buyer:", third)
        buy(first, "ann")
        buy(first, "ann")
        release(second)
        try:
            buy(second, "ben")
        except DatabaseError as error:
            print("released:", error.__cause__.pgcode)
        print("sold:", Ticket.objects.count(), "left:", left("opening night"), "holds:", *Hold.objects.order_by("state").values_list("state", flat=True))

        for _ in range(3):
            view("home")
        print("views:", views("home"))

        post_message("general", "ann", "hello")
        post_message("general", "ann", "anybody here?")
        seen = unread("ben", ["general", "random"])
        print("unread:", seen)
        mark_read("ben", "general", seen["general"][1])
        print("read:", unread("ben", ["general"]))
