-- Zipf with exponent 1.05 over 1 to 100000: within 2 % of it for each key. int() rounds.
\set u random(1, 1000000000)
\set k int(pow(1.0310982 - :u / 1000000000.0 * (1.0310982 - 0.5623412), -20))
UPDATE posts SET likes = likes + 1, updated_at = now() WHERE key = 'post:' || :k;
