from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("redsess_history", "0005_internal_note")]

    operations = [
        migrations.AlterField(
            "signin", "message", models.CharField(blank=True, max_length=250, verbose_name="message")
        ),
        migrations.AlterField("blockcopy", "message", models.CharField(blank=True, max_length=250)),
    ]
