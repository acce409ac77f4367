SELECT dc_create('likes', trend => '1 hour');
