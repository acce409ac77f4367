SELECT dc_sum('clicks');
