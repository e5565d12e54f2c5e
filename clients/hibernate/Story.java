import com.fasterxml.jackson.databind.ObjectMapper;
import jakarta.persistence.CascadeType;
import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.EnumType;
import jakarta.persistence.Enumerated;
import jakarta.persistence.FetchType;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.LockModeType;
import jakarta.persistence.ManyToOne;
import jakarta.persistence.OneToMany;
import jakarta.persistence.OptimisticLockException;
import jakarta.persistence.SequenceGenerator;
import jakarta.persistence.Table;
import jakarta.persistence.Version;
import java.io.File;
import java.math.BigDecimal;
import java.net.URI;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.time.LocalDate;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.hibernate.ScrollMode;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.annotations.CreationTimestamp;
import org.hibernate.annotations.JdbcTypeCode;
import org.hibernate.cfg.Configuration;
import org.hibernate.type.SqlTypes;

/** Hibernate's story: java Story URL STATEMENTS.json. What a statement may say is in check.py. */
public final class Story {
    private static final AtomicInteger checks = new AtomicInteger();
    private static final OffsetDateTime MADE = OffsetDateTime.parse("2024-02-29T18:00:15.25+05:30");
    private static URI url;

    public enum Mood { GOOD, BAD }

    @Entity(name = "Shop")
    @Table(name = "hibernate_shops")
    public static class Shop {
        @Id
        @GeneratedValue(strategy = GenerationType.IDENTITY)
        Long id;

        @Column(unique = true)
        String name;

        @Version
        int version;

        @CreationTimestamp
        OffsetDateTime opened;

        @OneToMany(mappedBy = "shop", cascade = CascadeType.ALL, orphanRemoval = true)
        List<Item> items = new ArrayList<>();
    }

    @Entity(name = "Item")
    @Table(name = "hibernate_items")
    public static class Item {
        @Id
        UUID id;

        @ManyToOne(fetch = FetchType.LAZY)
        Shop shop;

        String name;

        @Column(precision = 10, scale = 2)
        BigDecimal price;

        byte[] data;
        boolean done;
        double ratio;
        OffsetDateTime made;
        LocalDate day;
        String[] tags;
        Integer[] sizes;

        @JdbcTypeCode(SqlTypes.JSON)
        Map<String, String> more;

        @Enumerated(EnumType.STRING)
        @JdbcTypeCode(SqlTypes.NAMED_ENUM)
        Mood mood;
    }

    @Entity(name = "Event")
    @Table(name = "hibernate_events")
    public static class Event {
        @Id
        @GeneratedValue(strategy = GenerationType.SEQUENCE, generator = "events")
        @SequenceGenerator(name = "events", sequenceName = "hibernate_events_id", allocationSize = 20)
        Long id;

        String text;
    }

    private static void equal(Object found, Object expected, String what) {
        if (!Objects.deepEquals(found, expected)) {
            System.err.println("hibernate: " + what + ": " + found + " instead of " + expected);
            System.exit(1);
        }
        checks.incrementAndGet();
    }

    private static void fails(String sqlstate, String what, Runnable action) {
        Throwable error = null;
        try {
            action.run();
        } catch (RuntimeException failure) {
            for (error = failure; error != null && !(error instanceof SQLException); error = error.getCause()) {}
            if (error == null) {
                throw failure;
            }
        }
        equal(error == null ? "no error" : ((SQLException) error).getSQLState(), sqlstate, what);
    }

    private static SessionFactory open(String part, int connections, String options, String... more) {
        var driver = new Wire.Driver();
        String[] who = url.getUserInfo().split(":", 2);
        String query = url.getQuery() == null ? "" : url.getQuery() + "&";
        driver.setUrl("jdbc:postgresql://" + url.getAuthority().replaceAll("^.*@", "") + url.getPath() + "?" + query + options);
        driver.setUser(who[0]);
        driver.setPassword(who.length > 1 ? who[1] : System.getenv("PGPASSWORD"));
        driver.setApplicationName("hibernate-" + part);
        var pool = new Wire.Pool();
        pool.setDataSource(driver);
        pool.setMaximumPoolSize(connections);
        pool.setAutoCommit(false);
        var configuration = new Configuration().addAnnotatedClass(Shop.class).addAnnotatedClass(Item.class).addAnnotatedClass(Event.class);
        configuration.getProperties().put("hibernate.connection.datasource", pool);
        for (int n = 0; n < more.length; n += 2) {
            configuration.setProperty(more[n], more[n + 1]);
        }
        return configuration.buildSessionFactory();
    }

    private static void close(SessionFactory factory) throws SQLException {
        var pool = (Wire.Pool) factory.getProperties().get("hibernate.connection.datasource");
        factory.close();
        pool.close();
    }

    private static UUID id(int n) {
        return new UUID(0, n);
    }

    private static Item item(Shop shop, int n) {
        var item = new Item();
        item.id = id(n);
        item.shop = shop;
        item.name = "it's \\ \"ü\" 日本 ? " + n;
        item.price = n % 2 == 1 ? new BigDecimal("12.50") : null;
        item.data = new byte[] {0, (byte) 255};
        item.done = n % 3 == 0;
        item.ratio = 0.25;
        item.made = MADE.plusDays(n % 100);
        item.day = LocalDate.of(2024, 2, 29);
        item.tags = new String[] {"a", "b \"c\""};
        item.sizes = new Integer[] {1, -2, n};
        item.more = Map.of("n", "" + n);
        item.mood = n % 2 == 1 ? Mood.GOOD : null;
        return item;
    }

    private static void items(String part, int first, String options, String... more) throws SQLException {
        SessionFactory factory = open(part, 1, options, more);
        Consumer<Consumer<Session>> work = action -> factory.inTransaction(action::accept);
        var shop = new Shop();
        work.accept(session -> {
            shop.name = "shop " + part;
            session.persist(shop);
            for (int n = 0; n < 25; n++) {
                shop.items.add(item(shop, first + n));
            }
        });
        work.accept(session -> {
            Item found = session.find(Item.class, id(first + 3)), expected = item(shop, first + 3);
            equal(List.of(found.name, found.price.compareTo(expected.price), found.done == expected.done, found.mood), List.of(expected.name, 0, true, expected.mood), "an item");
            equal(new Object[] {found.data, found.tags, found.sizes, found.more, found.made.toInstant()},
                    new Object[] {expected.data, expected.tags, expected.sizes, expected.more, expected.made.toInstant()}, "an item's rest");
            found.price = found.price.add(BigDecimal.ONE);
            found.mood = Mood.BAD;
            session.remove(session.find(Item.class, id(first + 4)));
            session.createQuery("from Item where shop = :shop and ratio = 0.25 order by id", Item.class)
                    .setParameter("shop", shop).setFirstResult(6).setMaxResults(5).list().forEach(one -> one.name += " new");
        });
        work.accept(session -> {
            equal(session.createQuery("select count(*), max(price) from Item where shop.name like :name and mood = :mood", Object[].class)
                    .setParameter("name", "shop " + part).setParameter("mood", Mood.BAD).getSingleResult(), new Object[] {1L, new BigDecimal("13.50")}, "sums");
            equal(session.createQuery("from Shop s left join fetch s.items where s.id = :id", Shop.class).setParameter("id", shop.id).getSingleResult().items.size(), 24, "items of a shop");
            equal(session.createQuery("from Item where id in :ids", Item.class).setParameterList("ids", List.of(id(first), id(first + 1), id(first + 4))).list().size(), 2, "a list of keys");
            equal(session.createNativeQuery("select n from generate_series(1, :n) n", Integer.class).setParameter("n", 100).list().size(), 100, "a query of one's own");
            equal(session.createMutationQuery("update Item set price = price * 2 where shop = :shop and made > :made").setParameter("shop", shop).setParameter("made", MADE.plusDays(10)).executeUpdate() > 0, true, "rows updated");
        });
        // A portal, asked for 10 rows at a time; and one that is left half way.
        work.accept(session -> {
            for (int limit : new int[] {1000, 12}) {
                int rows = 0;
                try (var scroll = session.createQuery("from Item where shop = :shop order by id", Item.class).setParameter("shop", shop)
                        .setFetchSize(10).scroll(ScrollMode.FORWARD_ONLY)) {
                    while (rows < limit && scroll.next()) {
                        rows++;
                    }
                }
                equal(rows, Math.min(limit, 24), "a scroll");
            }
        });
        transactions(factory, shop, first);
        close(factory);
    }

    private static void transactions(SessionFactory factory, Shop shop, int first) {
        fails("23505", "a second row with one key", () -> factory.inTransaction(session -> {
            session.persist(item(shop, first + 100));
            var second = new Shop();
            second.name = shop.name;
            session.persist(second);
        }));
        // A batch with an error in it.
        fails("23505", "a batch", () -> factory.inStatelessSession(session -> {
            var transaction = session.beginTransaction();
            try {
                session.setJdbcBatchSize(5);
                for (int n : new int[] {110, 111, 0, 112, 113}) {
                    session.insert(item(shop, first + n));
                }
                transaction.commit();
            } catch (RuntimeException error) {
                transaction.rollback();
                throw error;
            }
        }));
        factory.inTransaction(session -> {
            Shop locked = session.find(Shop.class, shop.id, LockModeType.PESSIMISTIC_WRITE);
            session.doWork(connection -> {
                Savepoint before = connection.setSavepoint("before");
                try (var statement = connection.prepareStatement("update hibernate_items set price = price / ? where id = ?")) {
                    statement.setInt(1, 0);
                    statement.setObject(2, id(first + 1));
                    statement.executeUpdate();
                } catch (SQLException error) {
                    equal(error.getSQLState(), "22012", "a division by zero");
                }
                connection.rollback(before);
            });
            locked.name += " 2";
        });
        try {
            factory.inTransaction(session -> {
                shop.name += " 3";
                session.merge(shop);
            });
            equal("nothing", "an error", "an old version");
        } catch (OptimisticLockException error) {
            checks.incrementAndGet();
        }
    }

    /** Three connections, and six threads that want one. */
    private static void pooled() throws Exception {
        SessionFactory factory = open("pool", 3, "prepareThreshold=2");
        var threads = new ArrayList<Thread>();
        for (int place = 0; place < 6; place++) {
            String name = "event " + place + " ";
            threads.add(new Thread(() -> {
                for (int n = 0; n < 10; n++) {
                    var event = new Event();
                    event.text = name + n;
                    factory.inTransaction(session -> session.persist(event));
                }
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        factory.inTransaction(session -> equal(session.createQuery("select count(*) from Event", Long.class).getSingleResult(), 60L, "events of a pool"));
        close(factory);
    }

    public static void main(String[] arguments) throws Exception {
        // Else a pool tests a connection before it says which one it is.
        System.setProperty("com.zaxxer.hikari.aliveBypassWindowMs", "60000");
        url = new URI(arguments[0]);
        Wire.watch();
        close(open("schema", 1, "", "hibernate.hbm2ddl.auto", "create"));
        items("one", 1000, "");
        items("batches", 2000, "reWriteBatchedInserts=true", "hibernate.jdbc.batch_size", "10", "hibernate.order_inserts", "true", "hibernate.jdbc.time_zone", "Asia/Tokyo");
        items("prepared", 3000, "prepareThreshold=1&stringtype=unspecified", "hibernate.jdbc.batch_size", "10", "hibernate.jdbc.fetch_size", "7");
        pooled();
        var sessions = Wire.lines.stream().map(line -> Map.of("application", line.application, "complete", true, "statements", line.statements)).toList();
        new ObjectMapper().writeValue(new File(arguments[1]), sessions);
        System.out.println("ok: " + checks.get() + " checks");
    }
}
