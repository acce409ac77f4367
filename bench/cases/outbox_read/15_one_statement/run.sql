WITH e AS MATERIALIZED (SELECT * FROM dc_fetch('c', 100)), a AS MATERIALIZED (SELECT dc_ack('c', max(seq)) FROM e) SELECT e.* FROM e, a;
