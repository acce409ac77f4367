SELECT dc_add('visitors', 'page 7', nextval('items'));
