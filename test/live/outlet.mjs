// A socket whose message is still on its way is told the newest of each key afterwards, in one message, and nothing twice.
import { outlet } from '../../examples/live/live.mjs';

const sent = [];
const post = outlet((text, done) => sent.push({ text, done }));
post('a', '0');
for (let i = 1; i <= 1000; i++) {
    post('a', String(i));
    post('b', String(-i));
}
console.log(sent.map(({ text }) => text).join(' '));
sent[0].done();
sent[1].done();
post('b', '7');
console.log(sent.map(({ text }) => text).join(' '));
process.exit(0);
