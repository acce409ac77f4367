SELECT allowed FROM dc_stat_limits;
