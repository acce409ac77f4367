\set other random(0, 999)
\set out random(0, 1)
\set sender :out * 1002 + (1 - :out) * :other
\set receiver (1 - :out) * 1002 + :out * :other
\set id random(1, 9000000000000000000)
SELECT transfer(:sender, :receiver, 1, :id);
