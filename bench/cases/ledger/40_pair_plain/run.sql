\set sender random(0, 1)
\set receiver 1 - :sender
\set id random(1, 9000000000000000000)
SELECT transfer(:sender, :receiver, 1, :id);
