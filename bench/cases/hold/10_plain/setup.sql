CREATE TABLE seats (id int PRIMARY KEY, n bigint NOT NULL);
INSERT INTO seats VALUES (42, 1000000000);
CREATE TABLE holds (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), seat int NOT NULL, qty bigint NOT NULL,
    state text NOT NULL DEFAULT 'open', expires_at timestamptz NOT NULL);
