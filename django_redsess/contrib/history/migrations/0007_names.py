from django.db import migrations, models



class Migration(migrations.Migration):
    dependencies = [("redsess_history", "0006_message_code")]

    operations = [
        migrations.RemoveIndex("signin", "redsess_sign_in_by"),
        migrations.RenameField("signin", "by", "ended_by"),
        migrations.RenameField("signin", "message", "stored_message"),
        migrations.RenameField("signin", "device", "device_cookie"),
        migrations.RenameField("signin", "ended_is_about", "ended_at_is_approximate"),
        migrations.RenameField("signin", "is_told", "is_notified"),
        migrations.RenameField("signin", "unproven_told_at", "unproven_notified_at"),
        migrations.RenameField("blockcopy", "message", "stored_message"),
        migrations.AddIndex(
            "signin",
            models.Index(fields=["ended_by", "who_ended", "-login_ms", "-id"], name="redsess_sign_in_ended_by"),
        ),
    ]
