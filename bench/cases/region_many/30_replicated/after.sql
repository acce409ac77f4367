SELECT dc_compact('likes');
