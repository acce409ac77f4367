\set member random(1, 100000)
\set room :member % 100
INSERT INTO here VALUES (:room::text, :member::text, now()) ON CONFLICT (room, member) DO UPDATE SET seen = now();
