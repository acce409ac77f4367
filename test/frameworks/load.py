# load.py FOLDER DSN PROCESS ROUNDS: what DcExample.pm describes, by examples/psycopg
import sys

sys.path.insert(0, sys.argv[1])
import psycopg  # noqa: E402
import shop  # noqa: E402

process, rounds = int(sys.argv[3]), int(sys.argv[4])
new = bought = released = refused = 0
with psycopg.connect(sys.argv[2], autocommit=True) as conn:
    for i in range(rounds):
        new += shop.like(conn, 1, f"fan {i}")
        held = shop.hold(conn, "last night")
        if held is None:
            refused += 1
        elif (i + process) % 4 == 0:
            shop.release(conn, held)
            released += 1
        else:
            shop.buy(conn, held, f"psycopg {process}")
            shop.buy(conn, held, f"psycopg {process}")
            bought += 1
        shop.view(conn, "page")
        shop.post_message(conn, "load", f"psycopg {process}", str(i))
print("new", new, "bought", bought, "released", released, "refused", refused)
