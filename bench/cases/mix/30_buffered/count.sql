SELECT dc_sum('views') - 1000;
