SELECT count(*) FROM seats_hold WHERE state = 'confirmed';
