// The story of GORM: gorm URL STATEMENTS.json. What a statement may say is in check.py.
//
// What it sends, over pgx, is noted by pgx' tracer: every statement of every connection.
package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

type more map[string]any

// session is what one connection sent.
type session struct {
	Application string `json:"application"`
	Complete    bool   `json:"complete"`
	Statements  []more `json:"statements"`
	// failed is whether the statement that runs failed when it was prepared.
	failed bool
}

var (
	lock     sync.Mutex
	checks   int
	sessions []*session
	of       = map[*pgx.Conn]*session{}
)

// tracer notes what the connections of an application send.
type tracer struct {
	application string
	named       bool
}

type key struct{}

func (t tracer) session(conn *pgx.Conn) *session {
	if of[conn] == nil {
		of[conn] = &session{Application: t.application, Complete: true, Statements: []more{}}
		sessions = append(sessions, of[conn])
	}
	return of[conn]
}

func outcome(one more, tag pgconn.CommandTag, err error) more {
	var failure *pgconn.PgError
	if errors.As(err, &failure) {
		one["sqlstate"] = failure.Code
	} else if !strings.HasPrefix(tag.String(), "CREATE") && strings.ContainsAny(tag.String(), "0123456789") {
		one["rows"] = tag.RowsAffected()
	}
	return one
}

func (t tracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	one := more{"sql": data.SQL}
	if len(data.Args) > 0 {
		texts, types := []any{}, []any{}
		for _, arg := range data.Args {
			// What the answer is to come as is no parameter.
			if _, ok := arg.(pgx.QueryResultFormatsByOID); ok {
				continue
			}
			text, name := texted(arg)
			texts, types = append(texts, text), append(types, name)
		}
		one["parameters"], one["types"], one["named"] = texts, types, t.named
	}
	return context.WithValue(ctx, key{}, one)
}

func (t tracer) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryEndData) {
	lock.Lock()
	defer lock.Unlock()
	s := t.session(conn)
	if one := ctx.Value(key{}).(more); !s.failed {
		s.Statements = append(s.Statements, outcome(one, data.CommandTag, data.Err))
	}
	s.failed = false
}

func (t tracer) TracePrepareStart(ctx context.Context, conn *pgx.Conn, data pgx.TracePrepareStartData) context.Context {
	return context.WithValue(ctx, tracer{}, more{"sql": data.SQL, "kind": "prepare"})
}

func (t tracer) TracePrepareEnd(ctx context.Context, conn *pgx.Conn, data pgx.TracePrepareEndData) {
	lock.Lock()
	defer lock.Unlock()
	if s := t.session(conn); !data.AlreadyPrepared {
		s.Statements = append(s.Statements, outcome(ctx.Value(tracer{}).(more), pgconn.CommandTag{}, data.Err))
		s.failed = data.Err != nil && ctx.Value(key{}) != nil
	}
}

// texted is a parameter as text, and the type in whose binary form it goes.
func texted(arg any) (any, any) {
	if tags, ok := arg.(Tags); ok {
		return "{" + strings.Join(tags, ",") + "}", "text[]"
	}
	if valuer, ok := arg.(driver.Valuer); ok {
		value, err := valuer.Value()
		done(err)
		arg = value
	}
	switch value := arg.(type) {
	case nil:
		return nil, nil
	case int, int64, uint:
		return fmt.Sprint(value), "int8"
	case bool:
		return fmt.Sprint(value)[:1], "bool"
	case float64:
		return fmt.Sprint(value), "float8"
	case time.Time:
		return value.UTC().Format("2006-01-02 15:04:05.000000") + "+00", "timestamptz"
	case []byte:
		return `\x` + hex.EncodeToString(value), "bytea"
	case *string:
		if value == nil {
			return nil, nil
		}
		return *value, "text"
	case string:
		if strings.HasPrefix(value, `{"`) {
			return value, "jsonb"
		}
		return value, "text"
	}
	return fmt.Sprint(arg), nil
}

func equal(found, expected any, what string) {
	lock.Lock()
	defer lock.Unlock()
	if !reflect.DeepEqual(found, expected) {
		fmt.Fprintf(os.Stderr, "gorm: %s: %v instead of %v\n", what, found, expected)
		os.Exit(1)
	}
	checks++
}

func done(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "gorm: %v\n%s", err, debug.Stack())
		os.Exit(1)
	}
}

func fails(err error, sqlstate, what string) {
	var failure *pgconn.PgError
	if !errors.As(err, &failure) {
		equal(fmt.Sprint(err), sqlstate, what)
		return
	}
	equal(failure.Code, sqlstate, what)
}

// open is a pool of so many connections.
func open(part string, mode pgx.QueryExecMode, connections int, config gorm.Config) (*gorm.DB, *sql.DB) {
	settings, err := pgx.ParseConfig(os.Args[1])
	done(err)
	settings.RuntimeParams["application_name"] = "gorm-" + part
	settings.DefaultQueryExecMode = mode
	settings.Tracer = tracer{"gorm-" + part, mode == pgx.QueryExecModeCacheStatement || config.PrepareStmt}
	// Pings are not traced.
	pool := stdlib.OpenDB(*settings, stdlib.OptionShouldPing(func(context.Context, stdlib.ShouldPingParams) bool { return false }))
	config.DisableAutomaticPing = true
	pool.SetMaxOpenConns(connections)
	config.Logger = logger.Discard
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: pool}), &config)
	done(err)
	return db, pool
}

// Tags is an array as text.
type Tags []string

func (t Tags) Value() (driver.Value, error) { return "{" + strings.Join(t, ",") + "}", nil }

func (t *Tags) Scan(value any) error {
	*t = strings.Split(strings.Trim(value.(string), "{}"), ",")
	return nil
}

type Shop struct {
	gorm.Model
	Name  string `gorm:"uniqueIndex"`
	Items []Item
}

func (Shop) TableName() string { return "gorm_shops" }

type Item struct {
	ID     string `gorm:"type:uuid;primaryKey"`
	ShopID int64
	Name   string
	Price  *string `gorm:"type:numeric(10,2);check:price >= 0"`
	Ratio  float64 `gorm:"type:float8"`
	Done   bool
	Data   []byte
	Tags   Tags           `gorm:"type:text[]"`
	More   map[string]any `gorm:"type:jsonb;serializer:json"`
	Mood   *string        `gorm:"type:gorm_mood"`
	Made   time.Time
}

func (Item) TableName() string { return "gorm_items" }

type Event struct {
	ID   int64
	Text string
	At   time.Time `gorm:"default:now()"`
}

func (Event) TableName() string { return "gorm_events" }

var made = time.Date(2024, 2, 29, 12, 30, 15, 250000000, time.FixedZone("", 5*3600+1800))

func id(n int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", n) }

func item(n int) Item {
	one := Item{ID: id(n), Name: fmt.Sprintf("it's \\ \"ü\" 日本 ? %d", n), Ratio: 0.25, Done: n%2 == 1, Data: []byte{0, 255},
		Tags: Tags{"a", "b"}, More: map[string]any{"n": float64(n), "none": nil}, Made: made}
	if n%2 == 1 {
		price, mood := "12.50", "good"
		one.Price, one.Mood = &price, &mood
	}
	return one
}

func schema() {
	db, pool := open("schema", pgx.QueryExecModeExec, 1, gorm.Config{})
	for _, table := range []string{"items", "shops", "events"} {
		done(db.Exec("DROP TABLE IF EXISTS gorm_" + table).Error)
	}
	// The type stays, so that a copy of the database has it under another number.
	var there int64
	done(db.Raw("SELECT count(*) FROM pg_type WHERE typname = ?", "gorm_mood").Scan(&there).Error)
	if there == 0 {
		done(db.Exec("CREATE TYPE gorm_mood AS ENUM ('good', 'bad')").Error)
	}
	done(db.AutoMigrate(&Shop{}, &Item{}, &Event{}))
	done(pool.Close())
}

func items(part string, mode pgx.QueryExecMode, first int, config gorm.Config) {
	db, pool := open(part, mode, 1, config)
	shop := Shop{Name: "shop " + part}
	for n := range 5 {
		shop.Items = append(shop.Items, item(first+n))
	}
	done(db.Create(&shop).Error)
	many := []Item{}
	for n := 5; n < 30; n++ {
		one := item(first + n)
		one.ShopID = int64(shop.ID)
		many = append(many, one)
	}
	done(db.CreateInBatches(&many, 10).Error)
	done(db.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "id"}}, DoUpdates: clause.AssignmentColumns([]string{"name"})}).Create(&many[0]).Error)
	var found Item
	done(db.First(&found, "id = ?", id(first+1)).Error)
	equal(found.Made.Equal(made), true, "a time")
	expected := item(first + 1)
	found.Made, found.ShopID = expected.Made, 0
	equal(found, expected, "an item")
	equal(db.First(&Item{}, "id = ?", id(first+999)).Error, gorm.ErrRecordNotFound, "an item that is not there")
	var shops []Shop
	done(db.Preload("Items", "done = ?", true).Where("name LIKE ?", "shop "+part+"%").Find(&shops).Error)
	equal(len(shops[0].Items), 15, "items of a shop")
	mine := db.Model(&Item{}).Where("shop_id = ?", shop.ID).Session(&gorm.Session{})
	var count int64
	done(mine.Where("more->>'n' = ? OR id IN ?", fmt.Sprint(first+2), []string{id(first + 7), id(first + 8)}).Count(&count).Error)
	equal(count, int64(3), "a count")
	equal(mine.Where("made BETWEEN ? AND ?", made, made.Add(time.Hour)).Where("price IS NULL").Updates(map[string]any{"price": gorm.Expr("?::numeric + 1", "2"), "mood": "bad"}).RowsAffected, int64(15), "rows updated")
	equal(db.Where("id IN ?", []string{id(first + 20), id(first + 21)}).Delete(&Item{}).RowsAffected, int64(2), "rows deleted")
	var part2 []Item
	done(mine.Order("id").Limit(5).Offset(3).Find(&part2).Error)
	equal([]string{part2[0].ID, part2[4].ID}, []string{id(first + 3), id(first + 7)}, "a page")
	sizes := []int{}
	done(mine.FindInBatches(&part2, 10, func(tx *gorm.DB, _ int) error {
		sizes = append(sizes, len(part2))
		return nil
	}).Error)
	equal(sizes, []int{10, 10, 8}, "batches")
	rows, err := mine.Select("id", "price").Rows()
	done(err)
	length := 0
	for rows.Next() {
		length++
	}
	done(rows.Close())
	equal(length, 28, "row by row")
	// Deleted softly, and updated with its time.
	done(db.Delete(&shop).Error)
	done(db.Unscoped().Model(&shop).Update("name", shop.Name+" 2").Error)
	done(db.FirstOrCreate(&Shop{}, Shop{Name: "shop of " + part}).Error)

	done(db.Transaction(func(tx *gorm.DB) error {
		done(tx.Clauses(clause.Locking{Strength: "UPDATE", Options: "SKIP LOCKED"}).First(&Item{}, "id = ?", id(first)).Error)
		inner := tx.Transaction(func(tx *gorm.DB) error {
			done(tx.Model(&Item{}).Where("id = ?", id(first)).Update("name", "lost").Error)
			return tx.Exec("INSERT INTO gorm_items (id) VALUES (?)", id(first)).Error
		})
		fails(inner, "23505", "a second row with one key")
		tx.SavePoint("before")
		fails(tx.Model(&Item{}).Where("id = ?", id(first)).Update("price", "-1").Error, "23514", "a price below zero")
		tx.RollbackTo("before")
		return tx.Model(&Item{}).Where("id = ?", id(first)).Update("name", "kept").Error
	}, &sql.TxOptions{Isolation: sql.LevelRepeatableRead}))
	fails(db.Transaction(func(tx *gorm.DB) error {
		done(tx.Where("1 = 1").Delete(&Item{}).Error)
		return tx.Exec("SELECT 1 / ?::bigint", int64(0)).Error
	}), "22012", "what is undone")
	fails(db.Exec("SELECT nothing FROM gorm_items WHERE id = ?", id(0)).Error, "42703", "a column that is not there")
	fails(mine.Where("id = ?", id(first)).Update("mood", "none").Error, "22P02", "a mood that is none")
	done(pool.Close())
}

// pooled: four connections, and eight that want one; each fills in keys of one sequence.
func pooled() {
	db, pool := open("pool", pgx.QueryExecModeCacheStatement, 4, gorm.Config{PrepareStmt: true})
	var all sync.WaitGroup
	for place := range 8 {
		all.Go(func() {
			for n := range 10 {
				done(db.Transaction(func(tx *gorm.DB) error {
					return tx.Create(&Event{Text: fmt.Sprintf("event %d %d", place, n)}).Error
				}))
			}
		})
	}
	all.Wait()
	var count int64
	done(db.Model(&Event{}).Count(&count).Error)
	equal(count, int64(80), "events of a pool")
	done(pool.Close())
}

func main() {
	schema()
	items("cached", pgx.QueryExecModeCacheStatement, 1000, gorm.Config{})
	items("described", pgx.QueryExecModeDescribeExec, 2000, gorm.Config{})
	items("exec", pgx.QueryExecModeExec, 3000, gorm.Config{SkipDefaultTransaction: true})
	items("prepared", pgx.QueryExecModeCacheStatement, 4000, gorm.Config{PrepareStmt: true})
	pooled()
	list, err := json.MarshalIndent(sessions, "", " ")
	done(err)
	done(os.WriteFile(os.Args[2], list, 0o644))
	fmt.Printf("ok: %d checks\n", checks)
}
