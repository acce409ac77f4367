# load_django.py FOLDER PROCESS ROUNDS: what DcExample.pm describes, by examples/django
import os
import sys
import uuid

sys.path.insert(0, sys.argv[1])
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
import django  # noqa: E402

django.setup()
from shop import models  # noqa: E402

process, rounds = int(sys.argv[2]), int(sys.argv[3])
new = bought = released = refused = 0
post = models.Post.objects.get(pk=1)
for i in range(rounds):
    new += post.like(f"fan {i}")
    held = models.hold("last night", uuid.uuid4())
    if held is None:
        refused += 1
    elif (i + process) % 4 == 0:
        models.release(held)
        released += 1
    else:
        models.buy(held, f"django {process}")
        models.buy(held, f"django {process}")
        bought += 1
    models.view("page")
    models.post_message("load", f"django {process}", str(i))
print("new", new, "bought", bought, "released", released, "refused", refused)
