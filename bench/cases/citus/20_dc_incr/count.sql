SELECT dc_sum('likes');
