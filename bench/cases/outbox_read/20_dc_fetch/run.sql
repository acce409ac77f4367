SELECT * FROM dc_fetch('c', 100) \aset
SELECT dc_ack('c', :seq);
