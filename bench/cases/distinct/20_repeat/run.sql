\set i random(1, 1000)
SELECT dc_add('visitors', 'page 7', :i);
