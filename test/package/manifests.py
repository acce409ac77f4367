#!/usr/bin/env python3
"""manifests.py FILE: the manifests for CloudNativePG agree with each other and with dcounter.control."""
import re
import sys

import yaml

with open(sys.argv[1], encoding="utf8") as file:
    documents = {document["kind"]: document for document in yaml.safe_load_all(file)}
with open("dcounter.control", encoding="utf8") as file:
    version = re.search(r"^default_version = '(.*)'$", file.read(), re.M).group(1)

assert sorted(documents) == ["Cluster", "Database"], "a Cluster and a Database"
assert {document["apiVersion"] for document in documents.values()} == {"postgresql.cnpg.io/v1"}
cluster, database = documents["Cluster"]["spec"], documents["Database"]["spec"]
assert database["cluster"]["name"] == documents["Cluster"]["metadata"]["name"], "the database is of the cluster"
image, = cluster["postgresql"]["extensions"]
major, = re.findall(r"postgresql:(\d+)-", cluster["imageName"])
assert int(major) >= 18, "extension images need PostgreSQL 18"
assert image["name"] == "dcounter" and f":{version}-{major}-" in image["image"]["reference"], "the image is of this version"
assert cluster["postgresql"]["shared_preload_libraries"] == ["dcounter"]
assert database["extensions"] == [{"name": "dcounter", "version": version}], "the database has this version"
