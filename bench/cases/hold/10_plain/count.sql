SELECT count(*) FROM holds WHERE state = 'confirmed';
