from decimal import Decimal
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Product",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.SlugField(max_length=64, unique=True)),
                ("name", models.CharField(max_length=120)),
                ("description", models.TextField(blank=True, default="")),
                ("price", models.DecimalField(decimal_places=2, default=Decimal("24.00"), max_digits=8)),
                (
                    "shape",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("diamond", "Diamond"),
                            ("delta", "Delta"),
                            ("rokkaku", "Rokkaku"),
                            ("barn-door", "Barn door"),
                            ("sled", "Sled"),
                            ("centipede", "Centipede"),
                        ],
                        default="",
                        help_text="Empty: by the slug.",
                        max_length=16,
                    ),
                ),
                (
                    "palette",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("poppy", "Poppy"),
                            ("lagoon", "Lagoon"),
                            ("harvest", "Harvest"),
                            ("plum", "Plum"),
                            ("meadow", "Meadow"),
                            ("midnight", "Midnight"),
                        ],
                        default="",
                        help_text="Empty: by the slug.",
                        max_length=16,
                    ),
                ),
                (
                    "wind",
                    models.PositiveSmallIntegerField(
                        choices=[
                            (2, "light breeze"),
                            (3, "gentle breeze"),
                            (4, "moderate breeze"),
                            (5, "fresh breeze"),
                        ],
                        default=3,
                    ),
                ),
            ],
            options={
                "ordering": ["pk"],
            },
        ),
    ]
