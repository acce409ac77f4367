// Drives Chromium by its DevTools protocol, for DcLive.pm. Each line of standard input is a command as JSON, each line of
// standard output its answer: {"value": ...} or {"error": ...}.
//   {"do": "open", "url", "context"}   a tab; those of one context share what a browser stores. Its value is the tab
//   {"do": "eval", "tab", "js"}        the value of an expression; of a promise, what becomes of it
//   {"do": "click", "tab", "selector"} with the mouse
//   {"do": "key", "tab", "key"}        Tab, Enter or Space
//   {"do": "media", "tab", "features": {"prefers-color-scheme": "dark"}}
//   {"do": "size", "tab", "width", "height"}
//   {"do": "picture", "tab", "file", "width", "height"}
//   {"do": "close", "tab"}
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const { WebSocket } = createRequire(new URL('../../examples/live/package.json', import.meta.url))('ws');
const [program, folder] = process.argv.slice(2);
const chromium = spawn(program, ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-background-timer-throttling',
    '--disable-renderer-backgrounding', '--disable-backgrounding-occluded-windows', '--hide-scrollbars', '--lang=en-GB',
    '--remote-debugging-port=0', `--user-data-dir=${folder}`, 'about:blank'], { stdio: ['ignore', 'ignore', 'inherit'] });
process.on('exit', () => chromium.kill('SIGKILL'));
process.on('SIGTERM', () => process.exit(0));
chromium.on('exit', () => process.exit(1));
chromium.on('error', () => process.exit(1));

const file = `${folder}/DevToolsActivePort`;
while (!existsSync(file) || readFileSync(file, 'utf8').split('\n').length < 2) await sleep(50);
const [port, path] = readFileSync(file, 'utf8').split('\n');
const connection = new WebSocket(`ws://127.0.0.1:${port}${path}`, { perMessageDeflate: false });
await new Promise((resolve, reject) => connection.on('open', resolve).on('error', reject));

let last = 0;
const waiting = new Map();
connection.on('message', (data) => {
    const { id, result, error } = JSON.parse(data);
    if (!waiting.has(id)) return;
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    if (error) reject(new Error(error.message));
    else resolve(result);
});
const call = (method, params = {}, sessionId) => new Promise((resolve, reject) => {
    waiting.set(++last, { resolve, reject });
    connection.send(JSON.stringify({ id: last, method, params, sessionId }));
});

const contexts = new Map();
const sessions = new Map(); // tab -> session

async function evaluate(tab, expression) {
    const { result, exceptionDetails } = await call('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true }, sessions.get(tab));
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
}

const KEYS = { Tab: ['\t', 9], Enter: ['\r', 13], Space: [' ', 32] };
const commands = {
    async open({ url, context = 'one' }) {
        if (!contexts.has(context)) contexts.set(context, (await call('Target.createBrowserContext')).browserContextId);
        const { targetId } = await call('Target.createTarget', { url: 'about:blank', browserContextId: contexts.get(context) });
        const { sessionId } = await call('Target.attachToTarget', { targetId, flatten: true });
        sessions.set(targetId, sessionId);
        await call('Page.navigate', { url }, sessionId);
        for (;; await sleep(20)) {
            const state = await evaluate(targetId, `location.href !== 'about:blank' && document.readyState`).catch(() => '');
            if (state === 'complete') return targetId;
        }
    },
    eval: ({ tab, js }) => evaluate(tab, js),
    async click({ tab, selector }) {
        const at = await evaluate(tab, `(() => { const r = document.querySelector(${JSON.stringify(selector)}).getBoundingClientRect();
            return { x: r.x + r.width / 2, y: r.y + r.height / 2 }; })()`);
        for (const type of ['mousePressed', 'mouseReleased'])
            await call('Input.dispatchMouseEvent', { type, ...at, button: 'left', clickCount: 1 }, sessions.get(tab));
    },
    async key({ tab, key }) {
        const [text, code] = KEYS[key];
        const what = { key: key === 'Space' ? ' ' : key, code: key, windowsVirtualKeyCode: code };
        await call('Input.dispatchKeyEvent', { type: 'keyDown', ...what, ...(key === 'Tab' ? {} : { text }) }, sessions.get(tab));
        await call('Input.dispatchKeyEvent', { type: 'keyUp', ...what }, sessions.get(tab));
    },
    async media({ tab, features }) {
        await call('Emulation.setEmulatedMedia', { features: Object.entries(features).map(([name, value]) => ({ name, value })) }, sessions.get(tab));
    },
    async size({ tab, width, height }) {
        await call('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false }, sessions.get(tab));
    },
    async picture({ tab, file: name, width, height }) {
        await commands.size({ tab, width, height });
        await sleep(300);
        writeFileSync(name, Buffer.from((await call('Page.captureScreenshot', { format: 'png' }, sessions.get(tab))).data, 'base64'));
    },
    async close({ tab }) {
        await call('Target.closeTarget', { targetId: tab });
        sessions.delete(tab);
    },
};

console.log(JSON.stringify({ value: 'ready' }));
for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    try {
        console.log(JSON.stringify({ value: await commands[command.do](command) ?? null }));
    } catch (error) {
        console.log(JSON.stringify({ error: error.message }));
    }
}
process.exit(0);
