
import django.db.models.manager
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='OnlineSession',
            fields=[
                ('sid', models.CharField(max_length=20, primary_key=True, serialize=False, verbose_name='session')),
                ('user_id', models.TextField(verbose_name='user')),
                ('created_at', models.DateTimeField(null=True, verbose_name='signed in')),
                ('last_seen_at', models.DateTimeField(verbose_name='last seen')),
                ('expires_at', models.DateTimeField(verbose_name='expires')),
                ('address', models.TextField(verbose_name='address')),
                ('user_agent', models.TextField(verbose_name='user agent')),
            ],
            options={
                'verbose_name': 'online session',
                'verbose_name_plural': 'online sessions',
                'permissions': (('end_onlinesession', 'Can end online sessions'), ('end_all_onlinesession', "Can end everyone else's online sessions at once"), ('block_user', 'Can block users for a time'), ('export_onlinesession', 'Can export online sessions'), ('view_session_data', 'Can view the data of online sessions')),
                'managed': False,
                'default_permissions': ('view',),
                'base_manager_name': 'none',
                'default_manager_name': 'none',
            },
            managers=[
                ('none', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='PopularItem',
            fields=[
                ('item', models.CharField(max_length=64, primary_key=True, serialize=False, verbose_name='item')),
                ('views', models.PositiveBigIntegerField(verbose_name='views')),
            ],
            options={
                'verbose_name': 'most viewed item',
                'verbose_name_plural': 'most viewed items',
                'permissions': (('reset_popularitem', 'Can reset the views of items'),),
                'managed': False,
                'default_permissions': ('view',),
                'base_manager_name': 'none',
                'default_manager_name': 'none',
            },
            managers=[
                ('none', django.db.models.manager.Manager()),
            ],
        ),
    ]
