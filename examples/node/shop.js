// Likes, a flash sale, views and unread messages with node-postgres.
//
//   psql -d shop -f ../schema.sql
//   npm ci && node shop.js postgres:///shop
//
// Each function takes a pg.Pool.
import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import pg from "pg";

// pg returns a bigint as a string, because JavaScript's numbers are exact only up to 2^53. These counters stay below that; with
// BigInt instead of Number there is no limit.
pg.types.setTypeParser(pg.types.builtins.INT8, Number);

// The first column of the only row.
const call = async (db, sql, values) => Object.values((await db.query(sql, values)).rows[0])[0];

async function transaction(pool, work) {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    const result = await work(client);
    await client.query("COMMIT");
    return result;
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  } finally {
    client.release();
  }
}

// Likes. True if the fan did not like it before: a second click, or the same request again, changes nothing.
export const like = async (pool, postId, fan) =>
  (await pool.query("INSERT INTO likes (post_id, fan) VALUES ($1, $2) ON CONFLICT DO NOTHING", [postId, fan])).rowCount === 1;

export const unlike = (pool, postId, fan) =>
  pool.query("DELETE FROM likes WHERE post_id = $1 AND fan = $2", [postId, fan]);

// { postId: likes } of all posts of a page, in one call.
export async function likes(pool, postIds) {
  const { rows } = await pool.query("SELECT key, value FROM dc_get_many('post_likes', $1::bigint[])", [postIds]);
  return Object.fromEntries(rows.map(({ key, value }) => [key, value]));
}

// A flash sale. Seats are set aside while the buyer pays: the id of the hold, or null: sold out. If the answer gets lost,
// ask again with the same id: it is the same hold.
export const hold = (pool, event, qty = 1, holdId = randomUUID()) =>
  call(pool, "SELECT dc_hold('seats', $1, $2, '10 minutes', $3)", [event, qty, holdId]);

// The buyer has paid. An error if the hold has ended, and no ticket then; called again, nothing happens.
export const buy = (pool, holdId, buyer) =>
  transaction(pool, async (client) => {
    await client.query("INSERT INTO ticket (hold_id, buyer) VALUES ($1, $2) ON CONFLICT DO NOTHING", [holdId, buyer]);
    await client.query("SELECT dc_hold_confirm('seats', $1)", [holdId]);
  });

// The buyer cancels. Without a call the hold expires after ten minutes.
export const release = (pool, holdId) => pool.query("SELECT dc_hold_release('seats', $1)", [holdId]);

export const left = (pool, event) => call(pool, "SELECT dc_get('seats', $1)", [event]);

// Views
export const view = (pool, page) => pool.query("SELECT dc_incr('views', $1)", [page]);

export const views = (pool, page) => call(pool, "SELECT dc_get('views', $1)", [page]);

// Unread messages
export const postMessage = (pool, channel, author, body) =>
  transaction(pool, async (client) => {
    await client.query("INSERT INTO message (channel, author, body) VALUES ($1, $2, $3)", [channel, author, body]);
    await client.query("SELECT dc_incr('messages', $1)", [channel]);
  });

// [{ key, unread, upto }] of channels; give upto to markRead() when the member has seen them.
export const unread = async (pool, member, channels) =>
  (await pool.query("SELECT key, unread, upto FROM dc_unread('seen', $1::text, $2::text[])", [member, channels])).rows;

export const markRead = (pool, member, channel, upto) =>
  pool.query("SELECT dc_mark_read('seen', $1::text, $2, $3)", [member, channel, upto]);

async function tour(pool) {
  const clicks = [await like(pool, 42, "ann"), await like(pool, 42, "ann"), await like(pool, 42, "ben")];
  console.log("likes:", ...clicks, await likes(pool, [42, 43]));
  await unlike(pool, 42, "ben");
  console.log("taken back:", await likes(pool, [42, 43]));

  await pool.query("SELECT dc_restock('seats', 'opening night', 2)");
  const [first, second, third] = [await hold(pool, "opening night"), await hold(pool, "opening night"), await hold(pool, "opening night")];
  console.log("third buyer:", third);
  await buy(pool, first, "ann");
  await buy(pool, first, "ann");
  await release(pool, second);
  await buy(pool, second, "ben").catch((error) => console.log("released:", error.code));
  console.log("sold:", await call(pool, "SELECT count(*) FROM ticket"), "left:", await left(pool, "opening night"));

  await Promise.all([1, 2, 3].map(() => view(pool, "home")));
  console.log("views:", await views(pool, "home"));

  await postMessage(pool, "general", "ann", "hello");
  await postMessage(pool, "general", "ann", "anybody here?");
  const seen = await unread(pool, "ben", ["general", "random"]);
  console.log("unread:", seen);
  await markRead(pool, "ben", "general", seen[0].upto);
  console.log("read:", await unread(pool, "ben", ["general"]));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const pool = new pg.Pool({ connectionString: process.argv[2] });
  await tour(pool);
  await pool.end();
}
