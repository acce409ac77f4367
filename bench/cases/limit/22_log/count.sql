SELECT allowed + denied FROM dc_stat_limits;
