from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial")]

    operations = [
        migrations.RunSQL("CREATE EXTENSION IF NOT EXISTS dcounter", migrations.RunSQL.noop),
        migrations.RunSQL("SELECT dc_create('post_likes')", "SELECT dc_drop('post_likes')"),
        migrations.RunSQL(
            "SELECT dc_bind('post_likes', 'shop_like', key => 'post_id', build => 'now')",
            "SELECT dc_unbind('post_likes')",
        ),
        migrations.RunSQL("SELECT dc_stock_create('seats')", "SELECT dc_drop('seats')"),
        # in memory if dcounter is in shared_preload_libraries, otherwise in rows
        migrations.RunSQL(
            ["""
            DO $$
            BEGIN
                PERFORM dc_create('views', mode => 'buffered');
            EXCEPTION WHEN object_not_in_prerequisite_state THEN
                PERFORM dc_create('views');
            END $$
            """],
            "SELECT dc_drop('views')",
        ),
        migrations.RunSQL("SELECT dc_create('messages')", "SELECT dc_drop('messages')"),
        migrations.RunSQL("SELECT dc_unread_create('seen', 'messages')", "SELECT dc_unread_drop('seen')"),
    ]
