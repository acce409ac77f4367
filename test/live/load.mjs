// Many clients of the live page's server, for examples/live_api.pl.
//   load.mjs sockets URL PAGE N    N sockets that look at a page, a tenth of them by one viewer, and a tenth that do not read
//       until the end. It says "ready" when all have a value, then reads the last count from its input, and waits until each
//       socket has that; then it says how many messages there were. At the end of its input it ends.
//   load.mjs gets N PATH URL...    N GETs at once: how many there were of each answer, and in how many ms
//   load.mjs watch URL PAGE    each count of a page that a socket is told, until it is killed
//   load.mjs refused URL MESSAGE...    with which code a socket is closed that sends it
import { createRequire } from 'node:module';
import { Agent, get } from 'node:http';
import { createInterface } from 'node:readline';

const { WebSocket } = createRequire(new URL('../../examples/live/package.json', import.meta.url))('ws');
const [what, ...rest] = process.argv.slice(2);
const say = (value) => console.log(JSON.stringify(value));
const open = (url, done, options) => new WebSocket(`${url.replace('http', 'ws')}ws`, options).on('error', done);

const works = {
    async sockets(url, page, n) {
        const clients = Array.from({ length: n }, (_, i) => ({ viewer: i % 10 === 0 ? 'one' : `viewer-${i}`, isSlow: i % 10 === 5, messages: 0 }));
        let expected = null, told = () => {};
        for (let i = 0; i < n; i += 50) {
            await Promise.all(clients.slice(i, i + 50).map((client) => new Promise((resolve, reject) => {
                client.socket = open(url, reject, { perMessageDeflate: false });
                client.socket.on('open', () => client.socket.send(JSON.stringify({ subscribe: [page], viewer: client.viewer })));
                client.socket.on('close', () => { throw new Error('a socket was closed'); });
                client.socket.on('message', (data) => {
                    for (const message of JSON.parse(data)) {
                        if (message.page !== page) continue;
                        client.messages++;
                        client.count = message.count;
                        resolve();
                    }
                    told();
                });
            })));
        }
        clients.forEach(({ isSlow, socket }) => isSlow && socket.pause());
        say('ready');
        for await (const line of createInterface({ input: process.stdin })) {
            expected = Number(line);
            clients.forEach(({ isSlow, socket }) => isSlow && socket.resume());
            await new Promise((resolve) => {
                told = () => clients.every(({ count }) => count === expected) && resolve();
                told();
            });
            say({ sockets: n, messages: clients.reduce((sum, { messages }) => sum + messages, 0) });
        }
    },

    async gets(n, path, ...urls) {
        const answers = {};
        const agent = new Agent({ keepAlive: true, maxSockets: 200 });
        const since = performance.now();
        await Promise.all(Array.from({ length: n }, (_, i) => new Promise((resolve, reject) => {
            get(urls[i % urls.length] + path, { agent }, (response) => {
                let text = '';
                response.setEncoding('utf8').on('data', (chunk) => { text += chunk; }).on('end', () => {
                    const answer = `${response.statusCode} ${JSON.parse(text).count}`;
                    answers[answer] = (answers[answer] ?? 0) + 1;
                    resolve();
                });
            }).on('error', reject);
        })));
        say({ answers, ms: performance.now() - since });
    },

    watch: (url, page) => new Promise((resolve, reject) => {
        const socket = open(url, reject);
        socket.on('open', () => socket.send(JSON.stringify({ subscribe: [page], viewer: 'watch' })));
        socket.on('message', (data) => JSON.parse(data).filter((one) => one.page === page).forEach(({ count }) => say(count)));
        socket.on('close', resolve);
    }),

    async refused(url, ...messages) {
        for (const message of messages) {
            say(await new Promise((resolve) => {
                const socket = open(url, resolve);
                socket.on('open', () => socket.send(message));
                socket.on('close', resolve);
            }));
        }
    },
};

await works[what](...rest.map((one) => (/^\d+$/.test(one) ? Number(one) : one)));
process.exit(0);
