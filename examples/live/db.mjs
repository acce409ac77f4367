// The database: PGHOST, PGPORT, PGUSER and PGDATABASE say where it is.
import pg from 'pg';

export const CONNECTION = { connectionTimeoutMillis: 3000, query_timeout: 10000, application_name: 'live' };
const pool = new pg.Pool({ max: 8, ...CONNECTION });
pool.on('error', () => {}); // an idle connection was lost; the next query opens another one

// It cannot be asked, or not now: try again.
export class Away extends Error {}

// query(TEXT, VALUE...): its rows. A bigint is a text in them.
export async function query(text, ...values) {
    try {
        return (await pool.query(text, values)).rows;
    } catch (error) {
        if (error instanceof pg.DatabaseError && !/^(08|25006|40|53|57)/.test(error.code)) throw error;
        throw Object.assign(new Away(error.message), { code: error.code });
    }
}

// to the microsecond, and of one length, so that the order of texts is that of times
export const TIME = `to_char(updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS updated_at`;

// isPage(NAME): may it be the name of a page, that is a key? Not if it has half of a surrogate pair or a zero, which no text has.
export const isPage = (name) => typeof name === 'string' && name !== '' && !name.includes('\0') && Buffer.byteLength(name) <= 200 &&
    Buffer.from(name).toString() === name;
