#!/bin/sh
# A step of package.sh: what container/compose.yaml describes, on one machine and without its images: the server with its files, and the
# page with its environment. In the tree, as root, with Node and its packages pg and ws from Debian, which stand for "npm ci".
# shellcheck disable=SC2154 # what compose.yaml says
set -eu
work=$(mktemp -d)
chmod 755 "$work"

# what the file says, as shell: "setting SERVICE NAME" prints an environment variable, "mounts" the files of the server
python3 - >"$work/compose" <<'END'
import os, shlex, yaml
with open("container/compose.yaml", encoding="utf8") as file:
    services = yaml.safe_load(file)["services"]
for service, values in services.items():
    for name, value in values["environment"].items():
        print(f"{service}_{name}={shlex.quote(str(value))}")
mounts = [volume.split(":") for volume in services["db"]["volumes"] if volume.startswith(".")]
for source, target, _ in mounts:
    assert os.path.isfile(os.path.join("container", source)) and target.startswith("/container-init/"), source
print("mounts=" + shlex.quote(" ".join(f"container/{source}:{target}" for source, target, _ in mounts)))
assert services["live"]["volumes"] == ["../examples/live:/live:ro"] and "node server.mjs" in services["live"]["command"]
assert os.path.isfile(os.path.join("container", services["db"]["build"]["context"], services["db"]["build"]["dockerfile"]))
END
. "$work/compose"
[ "$live_PGHOST" = db ]

rm -rf /container-init
mkdir /container-init
for mount in $mounts; do
	cp "${mount%%:*}" "${mount#*:}"
done
export PGDATA=/build/compose
rm -rf "$PGDATA"
DCOUNTER_PASSWORD="$db_DCOUNTER_PASSWORD" dcounter-server -p 5497 >"$work/server.log" 2>&1 &
server=$!
page=
# shellcheck disable=SC2317 # at exit
end() {
	[ -z "$page" ] || kill "$page" || true
	kill -INT "$server" && wait "$server" || true
	rm -rf /container-init "$work"
}
trap end EXIT
for _ in $(seq 600); do
	pg_isready -q -h 127.0.0.1 -p 5497 && break
	sleep 0.1
done

cp -r examples/live "$work/live"
rm -rf "$work/live/node_modules"
ln -s /usr/share/nodejs "$work/live/node_modules"
PGHOST=127.0.0.1 PGPORT=5497 PGUSER="$live_PGUSER" PGPASSWORD="$live_PGPASSWORD" PGDATABASE="$live_PGDATABASE" HOST="$live_HOST" PORT="$live_PORT" \
	node "$work/live/server.mjs" >"$work/page.log" 2>&1 &
page=$!
cat >"$work/click.mjs" <<'END'
const url = `http://127.0.0.1:${process.argv[2]}/hello/counter`;
const click = (key) => fetch(url, { method: 'PUT', headers: { 'Content-Type': 'application/json', 'Idempotency-Key': key }, body: '{"action":"increment"}' });
for (let i = 0; i < 100; i++) {
    try { await fetch(url); break; } catch { await new Promise((done) => setTimeout(done, 100)); }
}
await click('first'), await click('second');
const { count } = await (await click('second')).json(); // sent again
console.log(count);
process.exit(count === 2 ? 0 : 1);
END
node "$work/click.mjs" "$live_PORT" || { cat "$work/page.log" "$work/server.log"; exit 1; }
