SELECT dc_sum('likes') - 10000;
