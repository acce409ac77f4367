\set sender random(0, 999)
\set receiver (:sender + random(1, 999)) % 1000
\set id random(1, 9000000000000000000)
SELECT transfer(:sender, :receiver, 1, :id);
