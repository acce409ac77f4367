SELECT cardinality(dc_value(dc_merge_agg(g))) = 20000 FROM many;
