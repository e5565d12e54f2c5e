// The story of postgres.js: node story.js URL STATEMENTS.json. What a statement may say is in check.py.
//
// Its option `debug` gives every statement that it sends, with its connection.
'use strict'

const fs = require('fs')
const { isDeepStrictEqual } = require('util')
const { Readable } = require('stream')
const { pipeline } = require('stream/promises')
const postgres = require('postgres')

const [url, path] = process.argv.slice(2)
const sessions = []
let checks = 0

function equal(found, expected, what) {
  if (!isDeepStrictEqual(found, expected)) {
    console.error('postgres.js: %s: %j instead of %j', what, found, expected)
    process.exit(1)
  }
  checks++
}

// A parameter as text, as it is sent.
function text(parameter, type) {
  const value = parameter?.raw ?? (parameter && 'value' in Object(parameter) ? parameter.value : parameter)
  if (value === null || value === undefined) return null
  if (value instanceof Date) return value.toISOString()
  if (value instanceof Uint8Array) return '\\x' + Buffer.from(value).toString('hex')
  if (typeof value === 'boolean') return value ? 't' : 'f'
  if (Array.isArray(value) && type !== 3802) return `{${value.map((one) => `"${one}"`).join(',')}}`
  return typeof value === 'object' ? JSON.stringify(value) : `${value}`
}

// Its type, for a log, which has values as the server writes them.
function typed(parameter) {
  const value = parameter && 'value' in Object(parameter) ? parameter.value : parameter
  if (value instanceof Date) return 'timestamptz'
  if (Array.isArray(value)) return 'int4[]'
  if (typeof value === 'boolean') return 'bool'
  return typeof value === 'object' && value && !(value instanceof Uint8Array) ? 'jsonb' : null
}

// A pool, and what its connections sent.
function connect(part, more = {}) {
  const application = `postgres-js-${part}`
  const byId = new Map()
  const debug = (id, sql, parameters, types) => {
    if (!byId.has(id)) {
      byId.set(id, { application, statements: [] })
      sessions.push(byId.get(id))
    }
    byId.get(id).statements.push({ sql, parameters: parameters.map((one, n) => text(one, types[n])), types: parameters.map(typed) })
  }
  const sql = postgres(url, { max: 1, debug, onnotice() {}, ...more, connection: { application_name: application } })
  // The first that was sent with this text, and is not known yet.
  const said = (string, more) => {
    for (const { statements } of byId.values()) {
      const one = statements.find((one) => one.sql === string && !('rows' in one) && !('sqlstate' in one))
      if (one) return Object.assign(one, more)
    }
    throw new Error(`not sent: ${string}`)
  }
  // Its rows, which go into the list.
  const rows = async (query, what, expected) => {
    const found = await query
    said(found.statement.string, { rows: found.count })
    equal(JSON.parse(JSON.stringify(found)), expected, what)
  }
  const count = async (query, expected, what) => {
    const found = await query
    said(found.statement.string, { rows: found.count })
    equal(found.count, expected, what)
  }
  const fails = async (query, sqlstate, what) => {
    const error = await query.then(() => ({ code: 'no error' }), (error) => error)
    equal(error.code, sqlstate, what)
    // What does not exist is found as it is described, without parameters.
    said(error.query, sqlstate === '42703' ? { sqlstate, kind: 'prepare', parameters: undefined } : { sqlstate })
  }
  return { sql, said, rows, count, fails, byId }
}

const odd = "it's \\ \"ü\" 日本"
const made = new Date('2024-02-29T12:30:15.250Z')

async function statements() {
  const { sql, said, rows, count } = connect('statements')
  await sql`DROP TABLE IF EXISTS postgres_js_items`
  const [{ there }] = await sql`SELECT count(*)::int AS there FROM pg_type WHERE typname = 'postgres_js_mood'`
  if (!there) await sql`CREATE TYPE postgres_js_mood AS ENUM ('good', 'bad')`
  await sql.unsafe(
    'CREATE TABLE postgres_js_items (id int PRIMARY KEY, name text, price numeric, data bytea, sizes int[], done bool, doc jsonb, made timestamptz, mood postgres_js_mood, moods postgres_js_mood[]); SELECT 1'
  )
  // Described first, then under a name.
  for (let n = 0; n < 4; n++) {
    await count(
      sql`INSERT INTO postgres_js_items VALUES (${n}, ${odd}, ${'12.50'}, ${Buffer.from([0, 255])}, ${[1, -2, n]}, ${n === 1},
        ${sql.json({ a: n, b: null })}, ${made}, ${n ? 'good' : null}, ${'{good,bad}'})`, 1, 'rows inserted')
  }
  const more = Array.from({ length: 50 }, (_, n) => ({ id: n + 10, name: `many ${n}`, done: n % 2 === 0 }))
  await count(sql`INSERT INTO postgres_js_items ${sql(more, 'id', 'name', 'done')}`, 50, 'rows of one insert')
  await count(sql`UPDATE postgres_js_items SET ${sql({ name: 'new', price: 3 })} WHERE id IN ${sql([10, 11, 12])}`, 3, 'rows updated')
  await rows(sql`SELECT id, name, data, sizes, done, doc, made, mood FROM postgres_js_items WHERE id = ${1} AND mood = ${'good'}`, 'the row', [
    { id: 1, name: odd, data: { type: 'Buffer', data: [0, 255] }, sizes: [1, -2, 1], done: true, doc: { a: 1, b: null }, made: made.toJSON(), mood: 'good' },
  ])
  const dynamic = (price) => (price ? sql`AND price > ${price}` : sql``)
  await rows(sql`SELECT count(*)::int FROM postgres_js_items WHERE done ${dynamic(1)}`, 'a part of a query', [{ count: 3 }])
  await rows(sql`SELECT count(*)::int FROM postgres_js_items WHERE done ${dynamic(0)}`, 'without it', [{ count: 26 }])
  equal((await sql`SELECT 1 AS one; SELECT 2 AS two`.simple()).length, 2, 'several statements')
  equal((await sql`SELECT id, name FROM postgres_js_items WHERE id = ${1}`.describe()).columns.length, 2, 'a description')
  said('SELECT id, name FROM postgres_js_items WHERE id = $1', { rows: undefined, kind: 'prepare', parameters: undefined })
  await sql.end()
  // Without names, as poolers want it.
  const plain = connect('unnamed', { prepare: false, fetch_types: false })
  for (let n = 0; n < 4; n++) {
    await plain.rows(plain.sql`SELECT ${n}::int + 1 AS sum, ${null}::text AS nothing`, 'a sum', [{ sum: n + 1, nothing: null }])
  }
  await plain.sql.end()
}

async function transactions() {
  const { sql, count, fails } = connect('transactions')
  const result = await sql.begin('isolation level serializable', async (sql) => {
    await count(sql`UPDATE postgres_js_items SET name = ${'a'} WHERE id = 1`, 1, 'rows updated')
    const inner = sql.savepoint('inner', async (sql) => {
      await count(sql`UPDATE postgres_js_items SET name = ${'lost'} WHERE id = 2`, 1, 'rows updated')
      const query = sql`INSERT INTO postgres_js_items (id) VALUES (${1})`
      await fails(query, '23505', 'a second row with one key')
      await query
    })
    equal((await inner.catch((error) => error)).code, '23505', 'a savepoint')
    // All at once.
    const all = await Promise.all([4, 5, 6].map((n) => sql`INSERT INTO postgres_js_items (id, name) VALUES (${n}, 'all')`))
    return all.length
  })
  equal(result, 3, 'a transaction')
  const undone = sql.begin(async (sql) => {
    await sql`DELETE FROM postgres_js_items`
    throw new Error('given up')
  })
  equal((await undone.catch((error) => error)).message, 'given up', 'what is undone')
  const failed = sql.begin(async (sql) => {
    await fails(sql`SELECT nothing FROM postgres_js_items WHERE id = ${1}`, '42703', 'a column that is not there')
  })
  equal((await failed.catch((error) => error)).code, '42703', 'a transaction that fails')
  await fails(sql`SELECT 10 / ${0}::int AS part`, '22012', 'a division by zero')
  await fails(sql`UPDATE postgres_js_items SET mood = ${'none'} WHERE id = 1`, '22P02', 'a mood that is none')
  await count(sql`SELECT 10 / ${5}::int AS part`, 1, 'a division')
  await sql.end()
}

async function streams() {
  const { sql, said, count } = connect('streams')
  await sql`CREATE TEMPORARY TABLE copied (a int, b text)`
  const lines = Array.from({ length: 1000 }, (_, n) => `${n}\tline ${n} ü\n`)
  await pipeline(Readable.from(lines), await sql`COPY copied FROM STDIN`.writable())
  said('COPY copied FROM STDIN', { rows: 1000, copy_data: lines.join('') })
  let out = ''
  for await (const part of await sql`COPY copied TO STDOUT`.readable()) out += part.toString('latin1')
  equal(Buffer.from(out, 'latin1').toString(), lines.join(''), 'what was copied out')
  said('COPY copied TO STDOUT', { rows: 1000 })
  // A portal, asked for 400 rows at a time; one that is closed half way; row by row.
  const found = []
  for await (const part of sql`SELECT n FROM generate_series(1, ${1000}::int) n`.cursor(400)) found.push(part.length)
  equal(found, [400, 400, 200], 'what a portal gave')
  let first = 0
  for await (const part of sql`SELECT n FROM generate_series(1, ${500}::int) n`.cursor(100)) {
    first = part.length
    break
  }
  equal(first, 100, 'the first of a portal')
  let sum = 0
  await sql`SELECT n FROM generate_series(1, ${5000}::int) n`.forEach((row) => (sum += row.n))
  equal(sum, 12502500, 'what came row by row')
  await count(sql`SELECT n, repeat(md5(n::text), 16) AS text FROM generate_series(1, 10000) n`, 10000, 'a large result')
  await sql.end()
}

async function cancelled() {
  const { sql, fails, rows, byId } = connect('cancel')
  const query = sql`SELECT pg_sleep(${30})`
  setTimeout(() => query.cancel(), 500)
  await fails(query, '57014', 'a cancelled statement')
  const [session] = byId.values()
  session.statements.push({ kind: 'cancel' })
  await rows(sql`SELECT 1 AS one`, 'what comes after a cancel', [{ one: 1 }])
  await sql.end()
}

async function notifications() {
  const { sql, rows } = connect('news')
  const came = new Promise((resolve) => sql.listen('postgres_js_news', resolve, () => sql.notify('postgres_js_news', 'hello')))
  equal(await came, 'hello', 'the notification')
  await rows(sql`SELECT 1 AS one`, 'what comes after it', [{ one: 1 }])
  await sql.end()
}

// Sent without waiting; a Sync ends each, so that an error ends no other.
async function pipelines() {
  const { sql, count, fails } = connect('pipeline')
  await sql`SELECT 10 / ${1}::int AS part`
  const queries = [5, 0, 2].map((n) => sql`SELECT 10 / ${n}::int AS part`.execute())
  const found = await Promise.all(queries.map((query) => query.then(([row]) => row.part, (error) => error.code)))
  equal(found, [2, '22012', 5], 'a pipeline with an error')
  sessions.at(-1).statements.filter((one) => one.parameters[0] === '0').forEach((one) => (one.sqlstate = '22012'))
  const many = Array.from({ length: 200 }, (_, n) => sql`INSERT INTO postgres_js_items (id, name) VALUES (${n + 100}, ${`many ${n}`})`)
  equal((await Promise.all(many)).reduce((sum, one) => sum + one.count, 0), 200, 'rows of a pipeline')
  await sql.end()
}

// A pool of four, with more asked of it than it has connections; and one that is reserved.
async function several() {
  const { sql } = connect('pool', { max: 4 })
  const reserved = await sql.reserve()
  await reserved`SET statement_timeout = '20s'`
  await Promise.all(
    Array.from({ length: 100 }, async (_, n) => {
      const [row] = await sql`SELECT ${n}::int * 2 AS double`
      equal(row.double, 2 * n, 'a product')
    })
  )
  const [{ statement_timeout }] = await reserved`SHOW statement_timeout`
  equal(statement_timeout, '20s', 'a reserved connection')
  reserved.release()
  await sql.end()
}

async function main() {
  await statements()
  await transactions()
  await streams()
  await cancelled()
  await notifications()
  await pipelines()
  await several()
  fs.writeFileSync(path, JSON.stringify(sessions, null, 1))
  console.log(`ok: ${checks} checks`)
}

main().catch((error) => {
  console.error('postgres.js:', error)
  process.exit(1)
})
