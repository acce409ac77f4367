"""The manager of doc/bound-recipes.md, for examples/orms.pl: python3 bound.py MANAGER"""
import os
import sys

import django
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"], "HOST": os.environ["PGHOST"],
        "PORT": os.environ["PGPORT"], "USER": os.environ["PGUSER"]}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField")
django.setup()

exec(open(sys.argv[1]).read())


class Article(models.Model):  # noqa: F821, it comes from there
    title = models.TextField()  # noqa: F821
    objects = ArticleManager()  # noqa: F821

    class Meta:
        app_label = "bound"
        db_table = "articles"


print([(article.id, article.score) for article in Article.objects.order_by("-score")])
print(Article.objects.filter(score__lt=0).get().title)
