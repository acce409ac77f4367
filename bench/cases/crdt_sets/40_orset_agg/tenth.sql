SELECT cardinality(dc_value(dc_merge_agg(o))) = 20000 FROM many WHERE i < 20000;
