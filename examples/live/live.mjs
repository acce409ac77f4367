// Values as they change, over WebSocket. A page subscribes with {"subscribe": [page, ...], "viewer": id}, and is sent arrays of
// {"page", "count", "updated_at", "viewers"}, {"live", "beat"} and {"trending"}.
//
// One connection LISTENs for all. What is kept here is what the open sockets look at, and all of it is read again whenever that
// connection is made: first LISTEN, then read, then the events.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { WebSocketServer } from 'ws';
import { CONNECTION, TIME, isPage, query } from './db.mjs';

const BEAT_MS = 1000 * (process.env.BEAT ?? 10); // a third of the presence's ttl
const MOST_PAGES = 50; // of one socket

const sockets = new Map(); // socket -> { viewer, pages, outlet, alive }
const topics = new Map(); // page that somebody looks at -> { sockets, here (viewer -> how many of them), count, updated_at, viewers, text }
let listener = null; // the connection that LISTENs, while it does
let trending = null, trendingIsOld = true;

// What a socket is to be told: of each key (a page, the list, the state) only the newest, while one message is on its way. So
// a slow reader costs no memory, and misses what has been overtaken.
export class Outlet {
    #send; #waiting = new Map(); #busy = false;

    constructor(send) {
        this.#send = send;
    }

    post(key, text) {
        this.#waiting.set(key, text);
        if (!this.#busy) this.#flush();
    }

    #flush() {
        this.#busy = this.#waiting.size > 0;
        if (!this.#busy) return;
        const batch = `[${[...this.#waiting.values()].join()}]`;
        this.#waiting.clear();
        this.#send(batch, () => this.#flush());
    }
}

function show(page, change) {
    const topic = topics.get(page);
    if (!topic) return;
    Object.assign(topic, change);
    if (topic.count === undefined) return; // not read yet
    const text = `{"page":${JSON.stringify(page)},"count":${topic.count},"updated_at":${JSON.stringify(topic.updated_at)},"viewers":${topic.viewers}}`;
    if (text === topic.text) return;
    topic.text = text;
    for (const socket of topic.sockets) sockets.get(socket).outlet.post(`page ${page}`, text);
}

const tellState = ({ outlet }) => outlet.post('state', `{"live":${listener !== null},"beat":${BEAT_MS}}`);
const tellTrending = ({ outlet }) => trending && outlet.post('trending', trending);
const each = (tell) => [...sockets.values()].forEach(tell);

// Pages are read by the connection that LISTENs: an event that comes before the values was sent before they were read.
const unread = new Set();

function read(page) {
    if (unread.size === 0) setImmediate(() => readAll(listener));
    unread.add(page);
}

async function readAll(client) {
    const pages = [...unread];
    unread.clear();
    try {
        const { rows } = await client.query(`SELECT page, value AS count, ${TIME}, dc_present('viewers', page) AS viewers
            FROM unnest($1::text[]) AS page, dc_info('likes', page)`, [pages]);
        for (const { page, ...values } of rows) show(page, values);
    } catch {
        client?.end().catch(() => {}); // the next connection reads all of them
    }
}

// timeOf("2026-11-28T09:00:00.12+01:00"): the same as TIME makes it
function timeOf(text) {
    const [, digits = ''] = text.match(/\.(\d+)/) ?? [];
    return `${new Date(text.replace(/\.\d+/, '')).toISOString().slice(0, 19)}.${digits.padEnd(6, '0')}Z`;
}

function onEvent({ channel, payload }) {
    const event = JSON.parse(payload);
    if (channel === 'viewers') {
        if (event.room !== undefined) show(event.room, { viewers: event.count });
        return;
    }
    trendingIsOld = true;
    const updated_at = event.updated_at && timeOf(event.updated_at);
    const known = topics.get(event.key)?.updated_at;
    // Older than what we have: it is from before that was read, or the clock was set back. The value itself says.
    if (known && updated_at && updated_at < known) read(event.key);
    else show(event.key, { count: event.value ?? 0, updated_at });
}

async function listen() {
    for (;; await sleep(500)) {
        const client = new pg.Client({ keepAlive: true, ...CONNECTION });
        const ended = new Promise((resolve) => client.once('end', () => resolve(true)));
        client.on('error', () => {}); // "end" comes as well
        client.on('notification', onEvent);
        try {
            await client.connect();
            await client.query('LISTEN likes; LISTEN viewers');
            listener = client;
            for (const page of topics.keys()) unread.add(page);
            await readAll(client);
            trendingIsOld = true;
            each(tellState);
            everybodyChanges();
            while (!await Promise.race([ended, sleep(BEAT_MS)])) await client.query('SELECT 1');
        } catch { /* it is not there, or not any more */ }
        listener = null;
        each(tellState);
        client.end().catch(() => {});
    }
}

// Who is there. This server is one connection of each viewer that has a socket here, so that nobody can have too many of them.
// What has changed is compared with how it is when its turn comes. A statement that fails needs no care: the next beat enters
// who is there, and who has left is not heard of.
const SERVER = randomUUID();
const changed = new Map();
let telling = null;

function changes(page, viewer) {
    changed.set(`${viewer} ${page}`, [page, viewer, SERVER]);
    telling ??= tellChanges();
}

async function tellChanges() {
    const isHere = ([page, viewer]) => topics.get(page)?.here.has(viewer) ?? false;
    const columns = (places) => [0, 1, 2].map((i) => places.map((place) => place[i]));
    await sleep(10); // for those that come together
    while (changed.size > 0) {
        const places = [...changed.values()], here = places.filter(isHere), gone = places.filter((place) => !isHere(place));
        changed.clear();
        if (here.length > 0) await query(`SELECT dc_beat_many('viewers', $1, $2, $3)`, ...columns(here)).catch(() => {});
        if (gone.length > 0) {
            await query(`SELECT dc_exit('viewers', r, m, c) FROM unnest($1::text[], $2::text[], $3::text[]) AS t(r, m, c)`, ...columns(gone))
                .catch(() => {});
        }
    }
    telling = null;
}

function everybodyChanges() {
    for (const [page, { here }] of topics) for (const viewer of here.keys()) changes(page, viewer);
}

function beat() {
    for (const [socket, one] of sockets) {
        if (!one.alive) {
            socket.terminate(); // it has not answered since the last beat
            continue;
        }
        one.alive = false;
        socket.ping();
    }
    everybodyChanges();
    each(tellState);
}

async function readTrending() {
    if (!trendingIsOld || !listener || sockets.size === 0) return;
    trendingIsOld = false;
    try {
        const rows = await query(`SELECT key AS page, score FROM dc_trending('likes', 10)`);
        trending = JSON.stringify({ trending: rows });
        each(tellTrending);
    } catch {
        trendingIsOld = true;
    }
}

function onMessage(socket, data) {
    const one = sockets.get(socket);
    let message;
    try {
        message = JSON.parse(data);
    } catch { /* not JSON */ }
    const pages = message?.subscribe;
    const isViewer = typeof message?.viewer === 'string' && /^[\w-]{1,64}$/.test(message.viewer);
    if (!isViewer || !Array.isArray(pages) || !pages.every(isPage) || new Set([...one.pages, ...pages]).size > MOST_PAGES)
        return socket.close(1008, 'subscribe to pages, as a viewer');
    one.viewer ??= message.viewer;
    for (const page of pages) {
        if (!topics.has(page)) topics.set(page, { sockets: new Set(), here: new Map() });
        const topic = topics.get(page);
        if (topic.text) one.outlet.post(`page ${page}`, topic.text);
        else if (listener) read(page); // else the next connection does
        if (topic.sockets.has(socket)) continue;
        one.pages.add(page);
        topic.sockets.add(socket); // from here on it gets events
        topic.here.set(one.viewer, (topic.here.get(one.viewer) ?? 0) + 1);
        changes(page, one.viewer);
    }
}

function onClose(socket) {
    const { viewer, pages } = sockets.get(socket);
    sockets.delete(socket);
    for (const page of pages) {
        const { sockets: others, here } = topics.get(page);
        others.delete(socket);
        here.set(viewer, here.get(viewer) - 1);
        if (here.get(viewer) === 0) here.delete(viewer);
        if (others.size === 0) topics.delete(page);
        changes(page, viewer);
    }
}

// live(SERVER): what it serves at /ws
export function live(server) {
    const isOurs = ({ origin, req }) => origin === undefined || [`http://${req.headers.host}`, `https://${req.headers.host}`].includes(origin);
    new WebSocketServer({ server, path: '/ws', maxPayload: 16384, verifyClient: isOurs }).on('connection', (socket) => {
        const outlet = new Outlet((text, sent) => socket.send(text, sent));
        const one = { viewer: null, pages: new Set(), outlet, alive: true };
        sockets.set(socket, one);
        socket.on('error', () => {}); // "close" comes as well
        socket.on('pong', () => { one.alive = true; });
        socket.on('message', (data) => onMessage(socket, data));
        socket.on('close', () => onClose(socket));
        tellState(one);
        tellTrending(one);
    });
    listen();
    setInterval(beat, BEAT_MS);
    setInterval(readTrending, 1000);
}

// endLive(): closes all sockets, and everybody leaves
export async function endLive() {
    everybodyChanges();
    for (const socket of sockets.keys()) {
        socket.close(1001);
        onClose(socket);
        socket.removeAllListeners('close');
    }
    await telling;
}
