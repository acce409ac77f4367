SELECT trim_scale(dc_sum('likes') / 5);
