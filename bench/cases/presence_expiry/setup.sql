SELECT dc_presence_create('chat', '1 day', max_members => 100000000);
