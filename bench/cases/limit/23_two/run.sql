SELECT allowed FROM dc_limit_all('{api,day}', '{key,key}');
