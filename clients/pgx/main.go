// The story of pgx: pgx URL STATEMENTS.json. What a statement may say is in check.py.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// more is what a statement says beside its text and parameters.
type more map[string]any

// session is a connection, and what it sent.
type session struct {
	*pgx.Conn   `json:"-"`
	Application string `json:"application"`
	Statements  []more `json:"statements"`
}

var (
	ctx      = context.Background()
	url      string
	lock     sync.Mutex
	checks   int
	sessions []*session
)

// said notes a statement. Parameters are text, or nil.
func (s *session) said(sql string, parameters []any, rest more) {
	one := more{"sql": sql}
	if parameters != nil {
		one["parameters"] = parameters
	}
	for name, value := range rest {
		one[name] = value
	}
	s.Statements = append(s.Statements, one)
}

func equal(found, expected any, what string) {
	lock.Lock()
	defer lock.Unlock()
	if !reflect.DeepEqual(found, expected) {
		fmt.Fprintf(os.Stderr, "pgx: %s: %v instead of %v\n", what, found, expected)
		os.Exit(1)
	}
	checks++
}

// done is for what must not fail.
func done(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "pgx: %v\n", err)
		os.Exit(1)
	}
}

func fails(err error, sqlstate, what string) {
	var of *pgconn.PgError
	if !errors.As(err, &of) {
		equal(fmt.Sprint(err), sqlstate, what)
		return
	}
	equal(of.Code, sqlstate, what)
}

func note(part string) *session {
	one := &session{Application: "pgx-" + part, Statements: []more{}}
	sessions = append(sessions, one)
	return one
}

func connect(part string, mode pgx.QueryExecMode) *session {
	one := note(part)
	config, err := pgx.ParseConfig(url)
	done(err)
	config.RuntimeParams["application_name"] = one.Application
	config.DefaultQueryExecMode = mode
	one.Conn, err = pgx.ConnectConfig(ctx, config)
	done(err)
	return one
}

func (s *session) exec(sql string, values ...any) int64 {
	tag, err := s.Exec(ctx, sql, values...)
	done(err)
	return tag.RowsAffected()
}

// statements sends the same in each of the modes that pgx has: what is prepared, under which name, and
// in which form values go differs.
func statements() {
	modes := []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	}
	for n, mode := range modes {
		s := connect(fmt.Sprintf("statements-%d", n), mode)
		if n == 0 {
			for _, sql := range []string{
				"DROP TABLE IF EXISTS pgx_items",
				"CREATE TABLE pgx_items (id int PRIMARY KEY, name text, big int8, data bytea, ratio float8, done bool, sizes int4[], made date)",
			} {
				s.exec(sql)
				s.said(sql, nil, more{})
			}
		}
		insert := "INSERT INTO pgx_items VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
		names := []string{"int4", "text", "int8", "bytea", "float8", "bool", "int4[]", "date"}
		made := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)
		for i := range 3 {
			id, name := n*10+i, fmt.Sprintf("it's \\ %d \"ü\" 日本", i)
			var ratio any
			if i == 1 {
				ratio = 0.25
			}
			values := []any{id, name, int64(-1) << 40, []byte{0, 255}, ratio, i == 1, []int32{1, -2}, made}
			equal(s.exec(insert, values...), int64(1), "rows inserted")
			if mode == pgx.QueryExecModeSimpleProtocol {
				// Values are written into the text.
				null := "null"
				if i == 1 {
					null = "'0.25'"
				}
				s.said(fmt.Sprintf("INSERT INTO pgx_items VALUES ( '%d' ,  '%s' ,  '-1099511627776' ,  '\\x00ff' ,  %s ,  '%s' ,  '{1,-2}' ,  '2024-02-29 00:00:00Z' )",
					id, strings.ReplaceAll(name, "'", "''"), null, fmt.Sprint(i == 1)[:1]), nil, more{"kind": "simple", "rows": 1})
				continue
			}
			var sent any
			if i == 1 {
				sent = "0.25"
			}
			s.said(insert, []any{fmt.Sprint(id), name, "-1099511627776", "\\x00ff", sent, fmt.Sprint(i == 1)[:1], "{1,-2}", "2024-02-29"},
				more{"kind": "execute", "types": names, "rows": 1, "named": mode == pgx.QueryExecModeCacheStatement})
		}
		query := "SELECT name, big, data, sizes FROM pgx_items WHERE id = $1"
		var name string
		var big int64
		var data []byte
		var sizes []int32
		done(s.QueryRow(ctx, query, n*10+1).Scan(&name, &big, &data, &sizes))
		equal(name, "it's \\ 1 \"ü\" 日本", "a name")
		equal(big, int64(-1)<<40, "a large number")
		equal(data, []byte{0, 255}, "bytes")
		equal(sizes, []int32{1, -2}, "an array")
		if mode == pgx.QueryExecModeSimpleProtocol {
			s.said("SELECT name, big, data, sizes FROM pgx_items WHERE id =  '41' ", nil, more{"kind": "simple", "rows": 1})
		} else {
			s.said(query, []any{fmt.Sprint(n*10 + 1)}, more{"kind": "execute", "types": []string{"int4"}, "rows": 1})
		}
		done(s.Close(ctx))
	}
	// Prepared by hand.
	s := connect("prepared", pgx.QueryExecModeCacheStatement)
	_, err := s.Prepare(ctx, "triple", "SELECT $1::int * 3")
	done(err)
	for n := range 10 {
		var found int
		done(s.QueryRow(ctx, "triple", n).Scan(&found))
		equal(found, 3*n, "a product")
		s.said("SELECT $1::int * 3", []any{fmt.Sprint(n)}, more{"types": []string{"int4"}, "named": true, "rows": 1})
	}
	done(s.Close(ctx))
}

func transactions() {
	s := connect("transactions", pgx.QueryExecModeCacheStatement)
	outer, err := s.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable})
	done(err)
	s.said("begin isolation level serializable", nil, more{})
	_, err = outer.Exec(ctx, "UPDATE pgx_items SET name = $1 WHERE id = 1", "a")
	done(err)
	s.said("UPDATE pgx_items SET name = $1 WHERE id = 1", []any{"a"}, more{"rows": 1})
	inner, err := outer.Begin(ctx)
	done(err)
	s.said("savepoint sp_1", nil, more{})
	_, err = inner.Exec(ctx, "INSERT INTO pgx_items (id) VALUES ($1)", 1)
	fails(err, "23505", "a second row with one key")
	s.said("INSERT INTO pgx_items (id) VALUES ($1)", []any{"1"}, more{"types": []string{"int4"}, "sqlstate": "23505"})
	done(inner.Rollback(ctx))
	s.said("rollback to savepoint sp_1", nil, more{})
	done(outer.Commit(ctx))
	s.said("commit", nil, more{})
	outer, err = s.Begin(ctx)
	done(err)
	s.said("begin", nil, more{})
	_, err = outer.Exec(ctx, "SELECT nothing FROM pgx_items WHERE id = $1", 1)
	fails(err, "42703", "a column that is not there")
	// It fails as it is prepared.
	s.said("SELECT nothing FROM pgx_items WHERE id = $1", nil, more{"kind": "prepare", "sqlstate": "42703"})
	_, err = outer.Exec(ctx, "SELECT 1")
	fails(err, "25P02", "the statement after an error")
	s.said("SELECT 1", nil, more{"sqlstate": "25P02"})
	done(outer.Rollback(ctx))
	s.said("rollback", nil, more{})
	done(s.Close(ctx))
}

func copies() {
	s := connect("copies", pgx.QueryExecModeCacheStatement)
	s.exec("CREATE TEMPORARY TABLE copied (a int, b text)")
	s.said("CREATE TEMPORARY TABLE copied (a int, b text)", nil, more{})
	rows := make([][]any, 500)
	for n := range rows {
		rows[n] = []any{n, "binary"}
	}
	count, err := s.CopyFrom(ctx, pgx.Identifier{"copied"}, []string{"a", "b"}, pgx.CopyFromRows(rows))
	done(err)
	equal(count, int64(500), "rows copied in, in binary form")
	s.said(`copy "copied" ( "a", "b" ) from stdin binary;`, nil, more{"rows": 500})
	var data strings.Builder
	for n := range 1000 {
		fmt.Fprintf(&data, "%d\tline %d ü\n", n, n)
	}
	tag, err := s.PgConn().CopyFrom(ctx, strings.NewReader(data.String()), "COPY copied FROM STDIN")
	done(err)
	equal(tag.RowsAffected(), int64(1000), "rows copied in")
	s.said("COPY copied FROM STDIN", nil, more{"rows": 1000, "copy_data": data.String()})
	_, err = s.PgConn().CopyFrom(ctx, strings.NewReader("x\ty\n"), "COPY copied FROM STDIN")
	fails(err, "22P02", "x as a number")
	s.said("COPY copied FROM STDIN", nil, more{"sqlstate": "22P02", "copy_data": "x\ty\n"})
	var out bytes.Buffer
	sql := "COPY (SELECT * FROM copied WHERE b <> 'binary') TO STDOUT"
	_, err = s.PgConn().CopyTo(ctx, &out, sql)
	done(err)
	equal(out.String(), data.String(), "what was copied out")
	s.said(sql, nil, more{"rows": 1000})
	done(s.Close(ctx))
}

func large() {
	s := connect("large", pgx.QueryExecModeCacheStatement)
	sql := "SELECT n, repeat(md5(n::text), 16) FROM generate_series(1, $1) n"
	rows, err := s.Query(ctx, sql, 10000)
	done(err)
	length := 0
	for rows.Next() {
		var n int
		var text string
		done(rows.Scan(&n, &text))
		length += len(text)
	}
	done(rows.Err())
	equal(length, 5120000, "a large result")
	s.said(sql, []any{"10000"}, more{"types": []string{"int4"}, "rows": 10000})
	begun, err := s.Begin(ctx)
	done(err)
	s.said("begin", nil, more{})
	walk := "DECLARE walk CURSOR FOR SELECT n FROM generate_series(1, 1000) n"
	_, err = begun.Exec(ctx, walk)
	done(err)
	s.said(walk, nil, more{})
	for _, expected := range []int{400, 400, 200} {
		rows, err := begun.Query(ctx, "FETCH 400 FROM walk")
		done(err)
		found, err := pgx.CollectRows(rows, pgx.RowTo[int])
		done(err)
		equal(len(found), expected, "rows of a cursor")
		s.said("FETCH 400 FROM walk", nil, more{"rows": expected})
	}
	done(begun.Commit(ctx))
	s.said("commit", nil, more{})
	done(s.Close(ctx))
}

func cancelled() {
	s := connect("cancel", pgx.QueryExecModeExec)
	cancelled := make(chan error)
	go func() {
		time.Sleep(500 * time.Millisecond)
		cancelled <- s.PgConn().CancelRequest(ctx)
	}()
	_, err := s.Exec(ctx, "SELECT pg_sleep($1)", 30.0)
	fails(err, "57014", "a cancelled statement")
	done(<-cancelled)
	s.said("SELECT pg_sleep($1)", []any{"30"}, more{"types": []string{"float8"}, "sqlstate": "57014"})
	s.said("", nil, more{"kind": "cancel"})
	var one int
	done(s.QueryRow(ctx, "SELECT 1").Scan(&one))
	equal(one, 1, "what comes after a cancel")
	s.said("SELECT 1", nil, more{"rows": 1})
	done(s.Close(ctx))
}

func notifications() {
	listener := connect("listener", pgx.QueryExecModeCacheStatement)
	teller := connect("teller", pgx.QueryExecModeCacheStatement)
	listener.exec("LISTEN pgx_news")
	listener.said("LISTEN pgx_news", nil, more{})
	teller.exec("SELECT pg_notify($1, $2)", "pgx_news", "hello")
	teller.said("SELECT pg_notify($1, $2)", []any{"pgx_news", "hello"}, more{"rows": 1})
	limited, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	note, err := listener.WaitForNotification(limited)
	done(err)
	equal(note.Channel+" "+note.Payload, "pgx_news hello", "the notification")
	done(listener.Close(ctx))
	done(teller.Close(ctx))
}

func pipelines() {
	s := connect("pipeline", pgx.QueryExecModeCacheStatement)
	batch := &pgx.Batch{}
	insert := "INSERT INTO pgx_items (id, name) VALUES ($1, $2)"
	for n := 100; n < 300; n++ {
		batch.Queue(insert, n, fmt.Sprintf("many %d", n))
		s.said(insert, []any{fmt.Sprint(n), fmt.Sprintf("many %d", n)}, more{"types": []string{"int4", "text"}, "rows": 1})
	}
	batch.Queue("SELECT count(*) FROM pgx_items WHERE id >= 100")
	s.said("SELECT count(*) FROM pgx_items WHERE id >= 100", nil, more{"rows": 1})
	results := s.SendBatch(ctx, batch)
	for range 200 {
		tag, err := results.Exec()
		done(err)
		equal(tag.RowsAffected(), int64(1), "rows of one of a batch")
	}
	var count int
	done(results.QueryRow().Scan(&count))
	equal(count, 200, "rows of a batch")
	done(results.Close())
	// An error: what stands behind it is passed over, and all of the batch is undone.
	divide := "SELECT 10 / $1::int"
	var one int
	done(s.QueryRow(ctx, divide, 10).Scan(&one))
	s.said(divide, []any{"10"}, more{"types": []string{"int4"}, "rows": 1})
	batch = &pgx.Batch{}
	for _, n := range []int{5, 0, 2} {
		batch.Queue(divide, n)
	}
	results = s.SendBatch(ctx, batch)
	done(results.QueryRow().Scan(&one))
	equal(one, 2, "what stood before the error")
	fails(results.QueryRow().Scan(&one), "22012", "an error in a batch")
	fails(results.Close(), "22012", "the end of a batch with an error")
	s.said(divide, []any{"5"}, more{"types": []string{"int4"}, "rows": 1})
	s.said(divide, []any{"0"}, more{"types": []string{"int4"}, "sqlstate": "22012"})
	s.said(divide, []any{"2"}, more{"types": []string{"int4"}, "unanswered": true})
	// libpq's kind of pipeline: a Sync between, so that an error is not the end.
	pipeline := s.PgConn().StartPipeline(ctx)
	for _, n := range []string{"1", "0", "5"} {
		pipeline.SendQueryParams(divide, [][]byte{[]byte(n)}, nil, nil, nil)
		done(pipeline.Sync())
	}
	s.said(divide, []any{"1"}, more{"named": false, "rows": 1})
	s.said(divide, []any{"0"}, more{"named": false, "sqlstate": "22012"})
	s.said(divide, []any{"5"}, more{"named": false, "rows": 1})
	var values []string
	for {
		result, err := pipeline.GetResults()
		if err != nil {
			fails(err, "22012", "an error in a pipeline")
			continue
		}
		if result == nil {
			break
		}
		if reader, is := result.(*pgconn.ResultReader); is {
			read := reader.Read()
			if read.Err != nil {
				fails(read.Err, "22012", "an error in a pipeline")
				continue
			}
			values = append(values, string(read.Rows[0][0]))
		}
	}
	equal(values, []string{"10", "2"}, "what a pipeline gave")
	done(pipeline.Close())
	done(s.Close(ctx))
}

// several: a pool of four connections, each held by one goroutine.
func several() {
	config, err := pgxpool.ParseConfig(url)
	done(err)
	config.MaxConns = 4
	opened, ofConnection := 0, map[*pgx.Conn]*session{}
	config.BeforeConnect = func(_ context.Context, of *pgx.ConnConfig) error {
		lock.Lock()
		defer lock.Unlock()
		of.RuntimeParams["application_name"] = fmt.Sprintf("pgx-several-%d", opened)
		opened++
		return nil
	}
	config.AfterConnect = func(_ context.Context, connection *pgx.Conn) error {
		lock.Lock()
		defer lock.Unlock()
		one := note(strings.TrimPrefix(connection.Config().RuntimeParams["application_name"], "pgx-"))
		ofConnection[connection] = one
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	done(err)
	var all, ready sync.WaitGroup
	ready.Add(4)
	for place := range 4 {
		all.Add(1)
		go func() {
			defer all.Done()
			held, err := pool.Acquire(ctx)
			done(err)
			defer held.Release()
			// All four are held at once: so there are four.
			ready.Done()
			ready.Wait()
			lock.Lock()
			s := ofConnection[held.Conn()]
			lock.Unlock()
			for n := range 50 {
				var sum int
				done(held.QueryRow(ctx, "SELECT $1::int + $2::int", place, n).Scan(&sum))
				equal(sum, place+n, "a sum")
				s.said("SELECT $1::int + $2::int", []any{fmt.Sprint(place), fmt.Sprint(n)},
					more{"types": []string{"int4", "int4"}, "rows": 1})
			}
		}()
	}
	all.Wait()
	pool.Close()
	equal(opened, 4, "connections of a pool")
}

func main() {
	url = os.Args[1]
	statements()
	transactions()
	copies()
	large()
	cancelled()
	notifications()
	pipelines()
	several()
	text, err := json.MarshalIndent(sessions, "", " ")
	done(err)
	done(os.WriteFile(os.Args[2], text, 0o600))
	fmt.Printf("ok: %d checks\n", checks)
}
