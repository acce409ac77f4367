// The database: PGHOST, PGPORT, PGUSER and PGDATABASE say where it is. Its functions are in schema.sql.
import pg from 'pg';

export const CONNECTION = { connectionTimeoutMillis: 3000, query_timeout: 10000, application_name: 'live' };
const pool = new pg.Pool({ max: 8, ...CONNECTION });
pool.on('error', () => {}); // an idle connection was lost; the next query opens another one

// refusal(STATUS, MESSAGE, HEADERS): an error that becomes an answer
export const refusal = (status, message, headers) => Object.assign(new Error(message), { status, headers });

// ask(NAME, VALUE...): the result of this function of the database
export async function ask(name, ...values) {
    try {
        return (await pool.query(`SELECT ${name}(${values.map((_, i) => `$${i + 1}`)}) AS answer`, values)).rows[0].answer;
    } catch (error) {
        const { code, message } = error;
        if (!(error instanceof pg.DatabaseError) || /^(08|25006|40|53|57)/.test(code))
            throw refusal(503, 'the database is away', { 'Retry-After': 1 });
        if (code === '42P01') throw refusal(404, 'there is no such counter');
        if (code === '23505' || code === 'LG004') throw refusal(422, message); // a key of something else, or too old
        throw code.startsWith('22') ? refusal(400, message) : error;
    }
}

// isPage(NAME): can it be the name of a page, and so a key? Not if it has half of a surrogate pair or a zero byte, which no text has.
export const isPage = (name) => typeof name === 'string' && name !== '' && !name.includes('\0') && Buffer.byteLength(name) <= 200 &&
    Buffer.from(name).toString() === name;
