SELECT dc_sum('views');
