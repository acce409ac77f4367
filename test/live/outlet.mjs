// A socket whose message is still on its way is told the newest of each key afterwards, in one message, and nothing twice.
import { Outlet } from '../../examples/live/live.mjs';

const sent = [];
const outlet = new Outlet((text, done) => sent.push({ text, done }));
outlet.post('a', '0');
for (let i = 1; i <= 1000; i++) {
    outlet.post('a', String(i));
    outlet.post('b', String(-i));
}
console.log(sent.map(({ text }) => text).join(' '));
sent[0].done();
sent[1].done();
outlet.post('b', '7');
console.log(sent.map(({ text }) => text).join(' '));
process.exit(0);
