// The live page: counters as JSON over HTTP; live.mjs has their values as they change. All that matters is in the database
// (schema.sql), so this may be restarted, or run several times, at any moment.
//
// HOST and PORT are where it listens (port 0: any that is free), db.mjs has those of the database.
import { createHash, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { Away, TIME, isPage, query } from './db.mjs';
import { endLive, live } from './live.mjs';

const { HOST = '127.0.0.1', PORT = '8080', STALENESS = '1 s' } = process.env;

// An answer that is not 200.
class Refusal extends Error {
    constructor(status, message, headers = {}) {
        super(message);
        Object.assign(this, { status, headers });
    }
}

// refusal(ERROR): what the client is told of it
function refusal(error) {
    if (error instanceof Refusal) return error;
    if (error instanceof Away) return new Refusal(503, 'the database is away', { 'Retry-After': '1' });
    if (error.code === '42P01') return new Refusal(404, 'there is no such counter');
    if (error.code === '23505') return new Refusal(422, 'this Idempotency-Key was used for something else');
    if (error.code === 'LG004') return new Refusal(422, 'this Idempotency-Key is too old');
    if (error.code?.startsWith('22')) return new Refusal(400, error.message);
    console.error(error);
    return new Refusal(500, 'this failed');
}

// inFlight(NAME, QUERY): callers that want the same at the same time share one query
const flights = new Map();
function inFlight(name, run) {
    if (!flights.has(name)) flights.set(name, run().finally(() => flights.delete(name)));
    return flights.get(name);
}

const answerOf = ({ count, updated_at }) => ({
    body: `{"count":${count},"updated_at":${JSON.stringify(updated_at)}}`, // the digits of a bigint, whatever a Number holds
    headers: { ETag: `"${count}-${updated_at ?? 0}"` },
});

// From the cache in shared memory: however many ask, and whichever server, the value is computed once in STALENESS.
async function getCounter(page) {
    const answer = answerOf((await inFlight(`counter ${page}`, () => query(
        `SELECT dc_get('likes', $1::text, $2::interval) AS count, ${TIME} FROM dc_total('likes', $1::text)`, page, STALENESS)))[0]);
    answer.headers['Cache-Control'] = 'max-age=1, stale-while-revalidate=5';
    return answer;
}

const DELTAS = new Map([['increment', 1], ['decrement', -1]]);

async function putCounter(page, request) {
    const delta = DELTAS.get((await readJson(request))?.action);
    if (!delta) throw new Refusal(400, 'action is "increment" or "decrement"');
    const op = request.headers['idempotency-key'] ?? randomUUID(); // who brings none counts each time
    if (op === '' || Buffer.byteLength(op) > 200) throw new Refusal(400, 'Idempotency-Key has 1 to 200 bytes');
    const address = request.socket.remoteAddress;
    const [{ allowed }] = await query(`SELECT dc_allow('clicks', $1) AS allowed`, address);
    if (!allowed) {
        const [{ s }] = await query(`SELECT greatest(ceil(extract(epoch FROM retry_after)), 1) AS s FROM dc_limit_peek('clicks', $1)`, address);
        throw new Refusal(429, 'too many clicks', { 'Retry-After': String(s ?? 1) });
    }
    // one transaction; nested, as only CASE says what comes first
    await query(`SELECT CASE WHEN dc_incr_once('likes', $1::text, $2::bigint, $3) THEN
        CASE WHEN $2::bigint > 0 THEN dc_incr_at('likes_by_minute', $1::text) END END`, page, delta, op);
    return answerOf((await query(`SELECT value AS count, ${TIME} FROM dc_info('likes', $1::text)`, page))[0]);
}

async function readJson(request) {
    if (!/^application\/json\s*(;|$)/i.test(request.headers['content-type'] ?? '')) throw new Refusal(415, 'send application/json');
    let text = '';
    for await (const chunk of request.setEncoding('utf8').iterator({ destroyOnReturn: false })) { // there will be an answer
        text += chunk;
        if (text.length > 1024) throw new Refusal(413, 'send 1 kB at most', { Connection: 'close' });
    }
    try {
        return JSON.parse(text);
    } catch {
        throw new Refusal(400, 'this is not JSON');
    }
}

async function getMinutes(page) {
    const [{ body }] = await inFlight(`minutes ${page}`, () => query(
        `SELECT json_build_object('from', min(bucket), 'counts', json_agg(value ORDER BY bucket))::text AS body
        FROM dc_buckets('likes_by_minute', $1::text, now() - interval '59 minutes')`, page));
    return { body, headers: { 'Cache-Control': 'max-age=2' } };
}

const html = readFileSync(new URL('index.html', import.meta.url), 'utf8');
const sourceOf = (tag) => `'sha256-${createHash('sha256').update(html.match(`<${tag}>([^]*?)</${tag}>`)[1]).digest('base64')}'`;
const PAGE_HEADERS = {
    'Content-Type': 'text/html; charset=utf-8',
    'Cache-Control': 'no-cache',
    'Content-Security-Policy': `default-src 'none'; script-src ${sourceOf('script')}; style-src ${sourceOf('style')}; connect-src 'self'; ` +
        `img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'`,
};

async function route(request) {
    const [, name, what] = request.url.split('?')[0].match(/^\/(?:([^/]+)\/(counter|minutes))?$/) ?? [, , 'nothing'];
    if (what === 'nothing') throw new Refusal(404, 'there is no such page');
    const allowed = what === 'counter' ? 'GET, HEAD, PUT' : 'GET, HEAD';
    if (!allowed.split(', ').includes(request.method)) throw new Refusal(405, `only ${allowed}`, { Allow: allowed });
    if (!what) return { body: html, headers: { ...PAGE_HEADERS } };
    let page;
    try {
        page = decodeURIComponent(name);
    } catch { /* not valid */ }
    if (!isPage(page)) throw new Refusal(400, 'the page has a name of 1 to 200 bytes');
    if (request.method === 'PUT') return putCounter(page, request);
    return what === 'counter' ? getCounter(page) : getMinutes(page);
}

async function answer(request, response) {
    let status = 200, body, headers;
    try {
        ({ body, headers } = await route(request));
        const known = request.headers['if-none-match']?.split(/\s*,\s*/).map((tag) => tag.replace(/^W\//, ''));
        if (request.method !== 'PUT' && headers.ETag && (known?.includes(headers.ETag) || known?.includes('*'))) status = 304;
    } catch (error) {
        const refused = refusal(error);
        status = refused.status;
        headers = { 'Cache-Control': 'no-store', ...refused.headers };
        body = JSON.stringify({ error: refused.message });
    }
    response.writeHead(status, { 'Content-Type': 'application/json', 'X-Content-Type-Options': 'nosniff', ...headers });
    response.end(status === 304 || request.method === 'HEAD' ? undefined : body);
}

const server = createServer(answer);
live(server);
server.listen(PORT, HOST, () => console.log(`http://${HOST}:${server.address().port}/`));
for (const signal of ['SIGINT', 'SIGTERM']) {
    process.once(signal, async () => {
        server.close();
        setTimeout(() => process.exit(0), 2000); // who waits for the database does not keep us
        await endLive();
        process.exit(0);
    });
}
