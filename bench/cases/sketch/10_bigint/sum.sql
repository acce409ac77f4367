SELECT sum(hashint8(x)::bigint) FROM numbers;
