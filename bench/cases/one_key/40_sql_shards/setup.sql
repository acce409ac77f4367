CREATE TABLE likes_by_hand (
    key text NOT NULL,
    shard int NOT NULL,
    likes bigint NOT NULL,
    PRIMARY KEY (key, shard)
);
