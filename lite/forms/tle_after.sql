$dcounter_lite$);
END $do$;
