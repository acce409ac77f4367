-- what compaction has to do: shard rows of a million keys
SELECT dc_create('likes'), dc_create('seen', totals => 'compacted');
