// Values as they change, over WebSocket. A page subscribes with {"subscribe": [page, ...], "viewer": id}, and is sent arrays of
// {"page", "count", "updated_at", "viewers"}, {"live", "beat"} and {"trending"}.
//
// One connection LISTENs for all. Only the pages of open sockets are kept here, and all of them are read again whenever that
// connection is made: first LISTEN, then read, then the events.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { WebSocketServer } from 'ws';
import { CONNECTION, ask, isPage } from './db.mjs';

const BEAT_MS = 1000 * (process.env.BEAT ?? 10); // a third of the presence's ttl
const MOST_PAGES = 50; // of one client
const clients = new Set(); // { socket, tell, viewer, pages, alive }
const topics = new Map(); // page that somebody looks at -> { clients, here: viewer -> how many of them, and what show() knows }
let listener = null; // the connection that LISTENs, while it does
let trending = null, trendingIsOld = true;

// outlet(SEND): a function that sends values to a client: of each key (a page, the list, the state) only the newest, while one
// message is on its way. So a slow reader costs no memory, and skips outdated values.
export function outlet(send) {
    const waiting = new Map();
    let busy = false;
    const flush = () => {
        const batch = `[${[...waiting.values()].join()}]`;
        busy = waiting.size > 0;
        waiting.clear();
        if (busy) send(batch, flush);
    };
    return (key, text) => {
        waiting.set(key, text);
        if (!busy) flush();
    };
}

const tellState = ({ tell }) => tell('state', `{"live":${listener !== null},"beat":${BEAT_MS}}`);
const tellTrending = ({ tell }) => trending && tell('trending', trending);

function show(page, change) {
    const topic = topics.get(page);
    if (!topic) return; // nobody is there any more
    Object.assign(topic, change);
    if (topic.count === undefined || topic.viewers === undefined) return; // not read yet
    const text = `{"page":${JSON.stringify(page)},"count":${topic.count},"updated_at":${JSON.stringify(topic.updated_at)},` +
        `"viewers":${topic.viewers}}`;
    if (text !== topic.text) topic.clients.forEach(({ tell }) => tell(`page ${page}`, text));
    topic.text = text;
}

// On the connection that LISTENs, so that later changes send an event. Events that arrive in the meantime are handed over
// before the values, and may be newer: then the page is read again.
async function read(pages, client = listener) {
    for (const page of pages) show(page, { wasHeard: false });
    try {
        const { rows } = await client.query('SELECT * FROM live_pages($1)', [pages]);
        const overtaken = [];
        for (const { page, ...values } of rows) {
            if (topics.get(page)?.wasHeard) overtaken.push(page);
            else show(page, values);
        }
        if (overtaken.length > 0) read(overtaken);
    } catch {
        client?.end().catch(() => {}); // the next connection reads all of them
    }
}

// timeOf("2026-11-28T09:00:00.12+01:00"): the same as live_time() makes it
const timeOf = (text, [, digits] = text.match(/\.(\d+)/) ?? [, '']) =>
    `${new Date(text.replace(/\.\d+/, '')).toISOString().slice(0, 19)}.${digits.padEnd(6, '0')}Z`;

function onEvent({ channel, payload }) {
    const { room, key, value, updated_at, count } = JSON.parse(payload);
    if (channel === 'viewers') return show(room, { viewers: count, wasHeard: true });
    trendingIsOld = true;
    const change = { count: value ?? 0, updated_at: updated_at && timeOf(updated_at), wasHeard: true };
    // Older than our value: it is from before that was read, or the clock was set back. Reading the value decides.
    if (change.updated_at && change.updated_at < topics.get(key)?.updated_at) read([key]);
    else show(key, change);
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
            await read([...topics.keys()]);
            trendingIsOld = true;
            clients.forEach(tellState);
            everybodyChanges();
            while (!await Promise.race([ended, sleep(BEAT_MS)])) await client.query('SELECT 1');
        } catch { /* it is not there, or not any more */ }
        listener = null;
        clients.forEach(tellState);
        client.end().catch(() => {});
    }
}

// The viewers. Changes are compared with the state when their turn comes, and one connection keeps the order. A call that
// fails needs no care: the next heartbeat enters the present viewers, and those who have left expire.
const SERVER = randomUUID();
const changed = new Set(); // [page, viewer] as JSON
const changes = (page, viewer) => changed.add(JSON.stringify([page, viewer]));
const everybodyChanges = () => topics.forEach(({ here }, page) => here.forEach((_, viewer) => changes(page, viewer)));

async function tellChanges() {
    if (!listener || changed.size === 0) return;
    const places = [...changed].map((place) => JSON.parse(place)).map(([page, who]) => [page, who, topics.get(page)?.here.has(who)]);
    changed.clear();
    await listener.query('SELECT live_viewers($1, $2)', [SERVER, JSON.stringify(places)]).catch(() => {});
}

function beat() {
    for (const client of clients) {
        if (client.alive) client.socket.ping();
        else client.socket.terminate(); // it has not answered since the last beat
        client.alive = false;
    }
    everybodyChanges();
    clients.forEach(tellState);
}

async function readTrending() {
    if (!trendingIsOld || !listener || clients.size === 0) return;
    trendingIsOld = false;
    trending = await ask('live_trending').catch(() => { trendingIsOld = true; });
    clients.forEach(tellTrending);
}

function onMessage(client, data) {
    let pages, viewer;
    try {
        ({ subscribe: pages, viewer } = JSON.parse(data));
    } catch { /* not an object in JSON */ }
    const isViewer = typeof viewer === 'string' && /^[\w-]{1,64}$/.test(viewer);
    if (!isViewer || !Array.isArray(pages) || !pages.every(isPage) || new Set([...client.pages, ...pages]).size > MOST_PAGES)
        return client.socket.close(1008, 'subscribe to pages, as a viewer');
    client.viewer ??= viewer;
    const unread = [];
    for (const page of pages) {
        if (!topics.has(page)) unread.push(page) && topics.set(page, { clients: new Set(), here: new Map() });
        const topic = topics.get(page);
        if (topic.text) client.tell(`page ${page}`, topic.text);
        if (topic.clients.has(client)) continue;
        client.pages.add(page);
        topic.clients.add(client); // from here on it gets what is read, and events
        topic.here.set(client.viewer, (topic.here.get(client.viewer) ?? 0) + 1);
        changes(page, client.viewer);
    }
    if (listener && unread.length > 0) read(unread); // else the next connection does
}

function leave(client) {
    if (!clients.delete(client)) return;
    for (const page of client.pages) {
        const { clients: others, here } = topics.get(page), left = here.get(client.viewer) - 1;
        others.delete(client);
        if (left > 0) here.set(client.viewer, left);
        else here.delete(client.viewer);
        if (others.size === 0) topics.delete(page);
        changes(page, client.viewer);
    }
}

// live(SERVER): handles connections to /ws
export function live(server) {
    const isOurs = ({ origin, req: { headers: { host } } }) => !origin || [`http://${host}`, `https://${host}`].includes(origin);
    new WebSocketServer({ server, path: '/ws', maxPayload: 16384, verifyClient: isOurs }).on('connection', (socket) => {
        const tell = outlet((text, sent) => socket.send(text, sent));
        const client = { socket, tell, viewer: null, pages: new Set(), alive: true };
        clients.add(client);
        socket.on('error', () => {}); // "close" comes as well
        socket.on('pong', () => { client.alive = true; });
        socket.on('message', (data) => onMessage(client, data));
        socket.on('close', () => leave(client));
        tellState(client);
        tellTrending(client);
    });
    listen();
    setInterval(beat, BEAT_MS);
    setInterval(readTrending, 1000);
    setInterval(tellChanges, 50); // together with those that come meanwhile
}

// endLive(): closes all sockets, and all viewers leave, unless the database makes us wait
export async function endLive() {
    for (const client of clients) {
        client.socket.close(1001);
        leave(client);
    }
    await Promise.race([tellChanges(), sleep(2000)]);
}
