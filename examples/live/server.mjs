// The live page: counters as JSON over HTTP; live.mjs has their values as they change. All that matters is in the database
// (schema.sql), so this may be restarted, or run several times, at any moment.
//
// HOST and PORT are where it listens (port 0: any that is free), db.mjs has those of the database.
import { createHash, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { ask, isPage, refusal } from './db.mjs';
import { endLive, live } from './live.mjs';

const { HOST = '127.0.0.1', PORT = '8080', STALENESS = '1 s' } = process.env;
const hash = (text) => createHash('sha256').update(text).digest('base64');

const html = readFileSync(new URL('index.html', import.meta.url), 'utf8');
const sourceOf = (tag) => `'sha256-${hash(html.match(`<${tag}>([^]*?)</${tag}>`)[1])}'`;
const POLICY = `default-src 'none'; script-src ${sourceOf('script')}; style-src ${sourceOf('style')}; img-src data:; connect-src 'self'; ` +
    `base-uri 'none'; form-action 'self'; frame-ancestors 'none'`;

// shared(FUNCTION, VALUE...): identical requests at the same time share one query
const flights = new Map();
function shared(...what) {
    const name = JSON.stringify(what);
    if (!flights.has(name)) flights.set(name, ask(...what).finally(() => flights.delete(name)));
    return flights.get(name);
}

async function click(page, request) {
    if (!/^application\/json\s*(;|$)/i.test(request.headers['content-type'])) throw refusal(415, 'send application/json');
    let text = '';
    for await (const chunk of request.setEncoding('utf8').iterator({ destroyOnReturn: false })) { // there will be an answer
        text += chunk;
        if (text.length > 1024) throw refusal(413, 'send 1 kB at most', { Connection: 'close' });
    }
    const op = request.headers['idempotency-key'] ?? randomUUID(); // who brings none counts each time
    const wait = await ask('live_click', page, text, op, request.socket.remoteAddress);
    if (wait) throw refusal(429, 'too many clicks', { 'Retry-After': wait });
    return [await ask('live_clicked', page)];
}

const PATHS = {
    html: () => [html, { 'Content-Type': 'text/html; charset=utf-8', 'Cache-Control': 'no-cache', 'Content-Security-Policy': POLICY }],
    counter: async (page) => [await shared('live_counter', page, STALENESS), { 'Cache-Control': 'max-age=1, stale-while-revalidate=5' }],
    minutes: async (page) => [await shared('live_minutes', page), { 'Cache-Control': 'max-age=2' }],
};

async function route(request) {
    const [path, name = '-', what = 'html'] = request.url.split('?')[0].match(/^\/(?:([^/]+)\/(counter|minutes))?$/) ?? [];
    if (!path) throw refusal(404, 'there is no such page');
    const Allow = what === 'counter' ? 'GET, HEAD, PUT' : 'GET, HEAD';
    if (!Allow.split(', ').includes(request.method)) throw refusal(405, `only ${Allow}`, { Allow });
    let page;
    try {
        page = decodeURIComponent(name);
    } catch { /* not valid */ }
    if (!isPage(page)) throw refusal(400, 'the page has a name of 1 to 200 bytes');
    return request.method === 'PUT' ? click(page, request) : PATHS[what](page);
}

async function answer(request, response) {
    const known = request.method === 'PUT' ? [] : request.headers['if-none-match']?.split(/\s*,\s*(?:W\/)?|^W\//) ?? [];
    let status = 200, body, headers;
    try {
        [body, headers] = await route(request);
        headers = { ETag: `"${hash(body)}"`, ...headers };
        if (known.includes(headers.ETag) || known.includes('*')) status = 304;
    } catch (error) {
        if (!error.status) console.error(error);
        status = error.status ?? 500;
        headers = { 'Cache-Control': 'no-store', ...error.headers };
        body = JSON.stringify({ error: error.status ? error.message : 'this failed' });
    }
    response.writeHead(status, { 'Content-Type': 'application/json', 'X-Content-Type-Options': 'nosniff', ...headers });
    response.end(request.method === 'HEAD' || status === 304 ? undefined : body);
}

const server = createServer(answer);
live(server);
server.listen(PORT, HOST, () => console.log(`http://${HOST}:${server.address().port}/`));
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => endLive().finally(() => process.exit(0)));
