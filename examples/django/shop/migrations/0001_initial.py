from django.db import migrations, models
import django.db.models.deletion


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Hold',
            fields=[
                ('hold_id', models.UUIDField(primary_key=True, serialize=False)),
                ('key', models.TextField()),
                ('qty', models.BigIntegerField()),
                ('state', models.TextField()),
                ('expires_at', models.DateTimeField()),
            ],
            options={
                'db_table': 'seats_hold',
                'abstract': False,
                'managed': False,
            },
        ),
        migrations.CreateModel(
            name='LikeCount',
            fields=[
                ('key', models.TextField(primary_key=True, serialize=False)),
                ('value', models.BigIntegerField(editable=False)),
                ('updated_at', models.DateTimeField(editable=False)),
            ],
            options={
                'db_table': 'post_likes',
                'abstract': False,
                'managed': False,
            },
        ),
        migrations.CreateModel(
            name='LikeShard',
            fields=[
                ('key', models.TextField(primary_key=True, serialize=False)),
                ('inc', models.BigIntegerField(editable=False)),
                ('dec', models.BigIntegerField(editable=False)),
            ],
            options={
                'db_table': 'post_likes_shard',
                'abstract': False,
                'managed': False,
            },
        ),
        migrations.CreateModel(
            name='Message',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('channel', models.TextField()),
                ('author', models.TextField()),
                ('body', models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name='Post',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('title', models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name='Ticket',
            fields=[
                ('hold_id', models.UUIDField(primary_key=True, serialize=False)),
                ('buyer', models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name='Like',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('fan', models.TextField()),
                ('post', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='shop.post')),
            ],
        ),
        migrations.AddConstraint(
            model_name='like',
            constraint=models.UniqueConstraint(fields=('post', 'fan'), name='one_like_of_a_fan'),
        ),
    ]
