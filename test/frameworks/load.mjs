// load.mjs FOLDER URL PROCESS ROUNDS: what DcExample.pm describes, by examples/node
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, url, process_, rounds] = process.argv.slice(2);
const shop = await import(pathToFileURL(`${folder}/shop.js`));
const pg = createRequire(pathToFileURL(`${folder}/shop.js`))("pg");
const pool = new pg.Pool({ connectionString: url, max: 2 });
const sums = { new: 0, bought: 0, released: 0, refused: 0 };

for (let i = 0; i < rounds; i++) {
  sums.new += await shop.like(pool, 1, `fan ${i}`);
  const held = await shop.hold(pool, "last night");
  if (held === null) {
    sums.refused++;
  } else if ((i + Number(process_)) % 4 === 0) {
    await shop.release(pool, held);
    sums.released++;
  } else {
    await shop.buy(pool, held, `node ${process_}`);
    await shop.buy(pool, held, `node ${process_}`);
    sums.bought++;
  }
  await Promise.all([shop.view(pool, "page"), shop.postMessage(pool, "load", `node ${process_}`, String(i))]);
}
console.log(...Object.entries(sums).flat());
await pool.end();
