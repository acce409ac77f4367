\set member random(1, 100000)
INSERT INTO here VALUES ('1', :member::text, now()) ON CONFLICT (room, member) DO UPDATE SET seen = now();
