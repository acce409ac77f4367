SELECT dc_hold('seats', 42) AS id \gset
SELECT dc_hold_confirm('seats', :id);
