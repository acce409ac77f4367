CREATE TABLE op (op_id text PRIMARY KEY);
