// node-postgres' story: node story.js URL STATEMENTS.json. What a statement may say is in check.py.
'use strict'

const fs = require('fs')
const { isDeepStrictEqual } = require('util')
const { once } = require('events')
const { Readable } = require('stream')
const { pipeline } = require('stream/promises')
const pg = require('pg')
const Cursor = require('pg-cursor')
const copy = require('pg-copy-streams')

const [url, path] = process.argv.slice(2)
const sessions = []
let checks = 0

function equal(found, expected, what) {
  if (!isDeepStrictEqual(found, expected)) {
    console.error('node-postgres: %s: %j instead of %j', what, found, expected)
    process.exit(1)
  }
  checks++
}

async function fails(promise, sqlstate, what) {
  const error = await promise.then(() => ({ code: 'no error' }), (error) => error)
  equal(error.code, sqlstate, what)
}

// A connection, and what it sent.
async function connect(part, more = {}) {
  const session = { application: `node-postgres-${part}`, statements: [] }
  sessions.push(session)
  const client = new pg.Client({ connectionString: url, application_name: session.application, ...more })
  await client.connect()
  const said = (sql, parameters, more = {}) =>
    session.statements.push(parameters ? { sql, parameters, ...more } : { sql, ...more })
  return { client, said, session }
}

async function statements() {
  const { client, said } = await connect('statements')
  // Without values it is a simple query, which may hold several statements.
  const create =
    'DROP TABLE IF EXISTS node_items; CREATE TABLE node_items (id int PRIMARY KEY, name text, price numeric, data bytea, sizes int[], done bool, doc jsonb)'
  equal((await client.query(create)).map((one) => one.command), ['DROP', 'CREATE'], 'two commands')
  said(create, undefined, { kind: 'simple' })
  const insert = 'INSERT INTO node_items VALUES ($1, $2, $3, $4, $5, $6, $7)'
  const odd = "it's \\ \"ü\" 日本"
  for (let n = 0; n < 4; n++) {
    // From the second on under a name: it is parsed once.
    const name = n ? 'insert item' : undefined
    const values = [n, odd, '12.50', Buffer.from([0, 255]), [1, -2, n], n === 1, { a: n }]
    equal((await client.query({ name, text: insert, values })).rowCount, 1, 'rows inserted')
    said(insert, [`${n}`, odd, '12.50', '\\x00ff', `{"1","-2","${n}"}`, `${n === 1}`, `{"a":${n}}`], {
      kind: 'execute', named: !!n, rows: 1,
      types: ['int4', 'text', 'numeric', 'bytea', 'int4[]', 'bool', 'jsonb'],
    })
  }
  const select = 'SELECT * FROM node_items WHERE id = $1'
  const { rows } = await client.query(select, [1])
  equal(
    rows,
    [{ id: 1, name: odd, price: '12.50', data: Buffer.from([0, 255]), sizes: [1, -2, 1], done: true, doc: { a: 1 } }],
    'the row'
  )
  said(select, ['1'], { kind: 'execute', named: false, rows: 1 })
  // The result in binary form.
  const sum = 'SELECT $1::int + 1 AS sum, $2::text IS NULL AS nothing'
  equal((await client.query({ text: sum, values: [41, null], binary: true })).rows, [{ sum: 42, nothing: true }], 'binary')
  said(sum, ['41', null], { rows: 1 })
  await client.end()
}

async function transactions() {
  const { client, said } = await connect('transactions')
  const query = async (sql, more) => {
    said(sql, undefined, { kind: 'simple', ...more })
    return client.query(sql)
  }
  await query('BEGIN')
  equal((await query("UPDATE node_items SET name = 'a' WHERE id = 1", { rows: 1 })).rowCount, 1, 'rows updated')
  await query('SAVEPOINT inner_one')
  await fails(query('INSERT INTO node_items (id) VALUES (1)', { sqlstate: '23505' }), '23505', 'a second row with one key')
  await query('ROLLBACK TO SAVEPOINT inner_one')
  await query('COMMIT')
  await query('BEGIN')
  await fails(query('SELECT nothing FROM node_items', { sqlstate: '42703' }), '42703', 'a column that is not there')
  await fails(query('SELECT 1', { sqlstate: '25P02' }), '25P02', 'the statement after an error')
  await query('ROLLBACK')
  const divide = 'SELECT 10 / $1::int AS part'
  said(divide, ['0'], { sqlstate: '22012' })
  await fails(client.query(divide, [0]), '22012', 'a division by zero')
  equal((await client.query(divide, [5])).rows, [{ part: 2 }], 'a division')
  said(divide, ['5'], { rows: 1 })
  await client.end()
}

async function copies() {
  const { client, said } = await connect('copies')
  await client.query('CREATE TEMPORARY TABLE copied (a int, b text)')
  said('CREATE TEMPORARY TABLE copied (a int, b text)')
  const lines = Array.from({ length: 1000 }, (_, n) => `${n}\tline ${n} ü\n`)
  const into = client.query(copy.from('COPY copied FROM STDIN'))
  await pipeline(Readable.from(lines.map((line) => Buffer.from(line))), into)
  equal(into.rowCount, 1000, 'rows copied in')
  said('COPY copied FROM STDIN', undefined, { kind: 'simple', rows: 1000, copy_data: lines.join('') })
  said('COPY copied FROM STDIN', undefined, { sqlstate: '22P02', copy_data: 'x\ty\n' })
  const wrong = client.query(copy.from('COPY copied FROM STDIN'))
  await fails(pipeline(Readable.from([Buffer.from('x\ty\n')]), wrong), '22P02', 'x as a number')
  let out = ''
  for await (const part of client.query(copy.to('COPY copied TO STDOUT'))) {
    out += part.toString('latin1')
  }
  equal(Buffer.from(out, 'latin1').toString(), lines.join(''), 'what was copied out')
  said('COPY copied TO STDOUT', undefined, { rows: 1000 })
  await client.end()
}

async function large() {
  const { client, said } = await connect('large')
  const sql = 'SELECT n, repeat(md5(n::text), 16) AS text FROM generate_series(1, 10000) n'
  const { rows } = await client.query(sql)
  equal([rows.length, rows.reduce((sum, row) => sum + row.text.length, 0)], [10000, 5120000], 'a large result')
  said(sql, undefined, { kind: 'simple', rows: 10000 })
  // A portal, asked for 400 rows at a time.
  const walk = 'SELECT n FROM generate_series(1, $1::int) n'
  const cursor = client.query(new Cursor(walk, [1000]))
  const found = []
  for (let more = await cursor.read(400); more.length; more = await cursor.read(400)) {
    found.push(more.length)
  }
  equal(found, [400, 400, 200], 'what a portal gave')
  said(walk, ['1000'], { kind: 'execute', rows: 400 })
  said(walk, undefined, { kind: 'fetch', rows: 400 })
  said(walk, undefined, { kind: 'fetch', rows: 200 })
  await cursor.close()
  // One that is closed half way.
  const half = client.query(new Cursor(walk, [500]))
  equal((await half.read(100)).length, 100, 'the first of a portal')
  said(walk, ['500'], { kind: 'execute', rows: 100 })
  await half.close()
  equal((await client.query('SELECT 1 AS one')).rows, [{ one: 1 }], 'what comes after a closed portal')
  said('SELECT 1 AS one', undefined, { rows: 1 })
  await client.end()
}

async function cancelled() {
  const { client, said, session } = await connect('cancel')
  const text = 'SELECT pg_sleep($1)'
  said(text, ['30'], { sqlstate: '57014' })
  session.statements.push({ kind: 'cancel' })
  const query = new pg.Query({ text, values: [30] })
  const ended = once(query, 'error')
  client.query(query)
  setTimeout(() => new pg.Client({ connectionString: url }).cancel(client, query), 500)
  equal((await ended)[0].code, '57014', 'a cancelled statement')
  equal((await client.query('SELECT 1 AS one')).rows, [{ one: 1 }], 'what comes after a cancel')
  said('SELECT 1 AS one', undefined, { rows: 1 })
  await client.end()
}

async function notifications() {
  const listener = await connect('listener')
  const teller = await connect('teller')
  await listener.client.query('LISTEN node_news')
  listener.said('LISTEN node_news')
  const came = once(listener.client, 'notification', { signal: AbortSignal.timeout(10000) })
  await teller.client.query('SELECT pg_notify($1, $2)', ['node_news', 'hello'])
  teller.said('SELECT pg_notify($1, $2)', ['node_news', 'hello'], { rows: 1 })
  const [note] = await came
  equal([note.channel, note.payload], ['node_news', 'hello'], 'the notification')
  await listener.client.end()
  await teller.client.end()
}

// Its pipelines have a Sync behind every query: an error ends no other.
async function pipelines() {
  const { client, said } = await connect('pipeline', { pipeline: true })
  const divide = 'SELECT 10 / $1::int AS part'
  const all = [5, 0, 2, 1].map((n) => client.query(divide, [n]).then((done) => done.rows[0].part, (error) => error.code))
  equal(await Promise.all(all), [2, '22012', 5, 10], 'a pipeline with an error')
  for (const n of [5, 0, 2, 1]) {
    said(divide, [`${n}`], n ? { rows: 1 } : { sqlstate: '22012' })
  }
  const insert = 'INSERT INTO node_items (id, name) VALUES ($1, $2)'
  const many = Array.from({ length: 200 }, (_, n) => {
    said(insert, [`${n + 100}`, `many ${n}`], { named: true, rows: 1 })
    return client.query({ name: 'many', text: insert, values: [n + 100, `many ${n}`] })
  })
  equal((await Promise.all(many)).reduce((sum, one) => sum + one.rowCount, 0), 200, 'rows of a pipeline')
  await client.end()
}

// A pool of four, with more asked of it than it has connections.
async function several() {
  const session = { application: 'node-postgres-pool', statements: [] }
  const settings = { connectionString: url, application_name: session.application, max: 4 }
  const pool = new pg.Pool(settings)
  const held = await Promise.all(Array.from({ length: 4 }, () => pool.connect()))
  await Promise.all(
    held.map(async (client, place) => {
      const statements = []
      sessions.push({ application: session.application, statements })
      for (let n = 0; n < 50; n++) {
        const { rows } = await client.query('SELECT $1::int + $2::int AS sum', [place, n])
        equal(rows, [{ sum: place + n }], 'a sum')
        statements.push({ sql: 'SELECT $1::int + $2::int AS sum', parameters: [`${place}`, `${n}`], rows: 1 })
      }
      client.release()
    })
  )
  await pool.end()
}

async function main() {
  await statements()
  await transactions()
  await copies()
  await large()
  await cancelled()
  await notifications()
  await pipelines()
  await several()
  fs.writeFileSync(path, JSON.stringify(sessions, null, 1))
  console.log(`ok: ${checks} checks`)
}

main().catch((error) => {
  console.error('node-postgres:', error)
  process.exit(1)
})
