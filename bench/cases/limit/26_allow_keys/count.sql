SELECT allowed - 100000 FROM dc_stat_limits;
