// Clients of the live page's server, for parts/99_live.sh.
//   live.mjs delays URL PAGES SECONDS    clicks in PAGES pages, and after how many ms another client sees each
//   live.mjs restarts URL                when (seconds since 1970) the database is away, and when it is live again: "away 1.5",
//                                        "live 2.5", until it is killed
// A page is two clients: one clicks, by PUT, and waits until the other one, a socket, is told of the new count; then it clicks
// again after a random time, so that clicks come at any moment of the worker's intervals.
import { request, Agent } from 'node:http';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';

const { WebSocket } = createRequire(new URL('../examples/live/package.json', import.meta.url))('ws');
const [what, url, ...rest] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true });

function open(hears) {
    const socket = new WebSocket(`${url.replace('http', 'ws')}ws`, { perMessageDeflate: false });
    socket.on('error', (error) => { throw error; });
    socket.on('message', (data) => JSON.parse(data).forEach(hears));
    return socket;
}

// click(PAGE): the count that it has then
const click = (page) => new Promise((resolve, reject) => {
    const put = request(`${url}${page}/counter`, { method: 'PUT', agent, headers: { 'Content-Type': 'application/json' } }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk) => { text += chunk; }).on('end', () => {
            if (response.statusCode === 200) resolve(JSON.parse(text).count);
            else reject(new Error(`${response.statusCode} ${text}`));
        });
    });
    put.on('error', reject);
    put.end('{"action":"increment"}');
});

const works = {
    async delays(pages, seconds) {
        const end = performance.now() + seconds * 1000;
        await Promise.all(Array.from({ length: pages }, async (_, i) => {
            const page = `page-${i}`;
            let seen = -1, seenAt = 0, told = () => {};
            const socket = open((message) => {
                if (message.page !== page || message.count === seen) return;
                [seen, seenAt] = [message.count, performance.now()];
                told();
            });
            const sees = async (count) => { while (seen < count) await new Promise((resolve) => { told = resolve; }); };
            socket.on('open', () => socket.send(JSON.stringify({ subscribe: [page], viewer: `viewer-${i}` })));
            await sees(0);
            for (;;) {
                await sleep(2000 * Math.random());
                const clicked = performance.now();
                if (clicked > end) return;
                await sees(await click(page));
                console.log((seenAt - clicked).toFixed(1));
            }
        }));
    },

    async restarts() {
        let wasLive = true;
        const socket = open((message) => {
            if (message.beat === undefined || message.live === wasLive) return;
            wasLive = message.live;
            console.log(`${wasLive ? 'live' : 'away'} ${Date.now() / 1000}`);
        });
        socket.on('open', () => socket.send(JSON.stringify({ subscribe: ['page'], viewer: 'viewer' })));
        await new Promise(() => {});
    },
};

await works[what](...rest.map(Number));
process.exit(0);
