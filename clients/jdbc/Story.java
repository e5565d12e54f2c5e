import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.atomic.AtomicInteger;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;

/** The JDBC driver's story: java Story.java URL STATEMENTS.json. What a statement may say is in check.py. */
public final class Story {
    private static final AtomicInteger checks = new AtomicInteger();
    private static final List<Session> sessions = Collections.synchronizedList(new ArrayList<>());
    private static URI url;

    /** A connection, and what it sent as JSON. */
    private static final class Session implements AutoCloseable {
        final String application;
        final Connection connection;
        final List<String> statements = new ArrayList<>();

        Session(String part, String... more) throws SQLException {
            application = "jdbc-" + part;
            var settings = new Properties();
            String[] who = url.getUserInfo().split(":", 2);
            settings.setProperty("user", who[0]);
            String password = who.length > 1 ? who[1] : System.getenv("PGPASSWORD");
            if (password != null) {
                settings.setProperty("password", password);
            }
            settings.setProperty("ApplicationName", application);
            for (int n = 0; n < more.length; n += 2) {
                settings.setProperty(more[n], more[n + 1]);
            }
            String query = url.getQuery() == null ? "" : "?" + url.getQuery();
            connection = DriverManager.getConnection("jdbc:postgresql://" + url.getAuthority().replaceAll("^.*@", "")
                    + url.getPath() + query, settings);
            sessions.add(this);
        }

        /** Notes a statement; `more` is JSON, without braces, or empty. */
        void said(String sql, List<String> parameters, String more) {
            var json = new StringBuilder("{\"sql\": ").append(quoted(sql));
            if (parameters != null) {
                json.append(", \"parameters\": [");
                json.append(String.join(", ", parameters.stream().map(Story::quoted).toList())).append("]");
            }
            statements.add(json.append(more.isEmpty() ? "" : ", " + more).append("}").toString());
        }

        void said(String sql, String more) {
            said(sql, null, more);
        }

        int update(String sql) throws SQLException {
            try (Statement statement = connection.createStatement()) {
                return statement.executeUpdate(sql);
            }
        }

        @Override
        public void close() throws SQLException {
            connection.close();
        }
    }

    private static String quoted(String text) {
        if (text == null) {
            return "null";
        }
        var json = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            json.append(c == '"' || c == '\\' ? "\\" + c : c < ' ' ? String.format("\\u%04x", (int) c) : "" + c);
        }
        return json.append('"').toString();
    }

    private static void equal(Object found, Object expected, String what) {
        if (!found.equals(expected)) {
            System.err.println("jdbc: " + what + ": " + found + " instead of " + expected);
            System.exit(1);
        }
        checks.incrementAndGet();
    }

    private interface Action {
        void run() throws Exception;
    }

    private static void fails(String sqlstate, String what, Action action) throws Exception {
        try {
            action.run();
        } catch (SQLException error) {
            equal(error.getSQLState(), sqlstate, what);
            return;
        }
        equal("nothing", "an error", what);
    }

    public static void main(String[] arguments) throws Exception {
        url = new URI(arguments[0]);
        statements();
        transactions();
        batches();
        copies();
        largeAndFetchSizes();
        cancelled();
        notifications();
        simpleOnly();
        several();
        var json = new ArrayList<String>();
        for (Session session : sessions) {
            json.add("{\"application\": " + quoted(session.application) + ", \"statements\": [\n"
                    + String.join(",\n", session.statements) + "]}");
        }
        Files.writeString(Path.of(arguments[1]), "[" + String.join(",\n", json) + "]\n");
        System.out.println("ok: " + checks.get() + " checks");
    }

    private static void statements() throws Exception {
        try (var session = new Session("statements")) {
            for (String sql : List.of("DROP TABLE IF EXISTS jdbc_items",
                    "CREATE TABLE jdbc_items (id int PRIMARY KEY, name text, price numeric, data bytea, big int8, done bool, ratio float8)")) {
                session.update(sql);
                session.said(sql, "\"kind\": \"execute\"");
            }
            // The first four executions are of the unnamed statement; from the fifth on it has a name.
            String insert = "INSERT INTO jdbc_items VALUES (?, ?, ?, ?, ?, ?, ?)";
            String sent = "INSERT INTO jdbc_items VALUES ($1, $2, $3, $4, $5, $6, $7)";
            try (PreparedStatement statement = session.connection.prepareStatement(insert)) {
                for (int n = 0; n < 10; n++) {
                    statement.setInt(1, n);
                    statement.setString(2, "item " + n + " \"ü\" \\ 日本");
                    statement.setBigDecimal(3, new BigDecimal("1234.50"));
                    statement.setBytes(4, new byte[] {0, (byte) 255});
                    statement.setLong(5, -(1L << 40));
                    statement.setObject(6, n == 3 ? null : Boolean.TRUE, Types.BOOLEAN);
                    statement.setDouble(7, 0.25);
                    equal(statement.executeUpdate(), 1, "rows inserted");
                    session.said(sent, Arrays.asList("" + n, "item " + n + " \"ü\" \\ 日本", "1234.50", "\\x00ff",
                            "-1099511627776", n == 3 ? null : "TRUE", "0.25"),
                            "\"kind\": \"execute\", \"rows\": 1, \"types\": [\"int4\", \"varchar\", \"numeric\", \"bytea\", \"int8\", \"bool\", \"float8\"], \"named\": " + (n >= 4));
                }
            }
            // Asked for often, the result comes in binary form.
            try (PreparedStatement statement = session.connection
                    .prepareStatement("SELECT id, name, price, data, big, done, ratio FROM jdbc_items WHERE id = ?")) {
                for (int n = 0; n < 10; n++) {
                    statement.setInt(1, n);
                    try (ResultSet row = statement.executeQuery()) {
                        row.next();
                        equal(row.getInt(1), n, "the key");
                        equal(row.getBigDecimal(3), new BigDecimal("1234.50"), "a numeric");
                        equal(row.getBytes(4).length, 2, "bytes");
                        equal(row.getLong(5), -(1L << 40), "a large number");
                        equal(row.getBoolean(6), n != 3, "a boolean");
                        equal(row.getDouble(7), 0.25, "a float");
                        equal(row.next(), false, "one row");
                    }
                    session.said("SELECT id, name, price, data, big, done, ratio FROM jdbc_items WHERE id = $1",
                            List.of("" + n), "\"kind\": \"execute\", \"rows\": 1, \"named\": " + (n >= 4));
                }
            }
            // Several statements in one text: each is sent by itself.
            try (Statement statement = session.connection.createStatement()) {
                statement.execute("SELECT 1; SELECT 2");
                statement.getMoreResults();
                statement.getResultSet().next();
                equal(statement.getResultSet().getInt(1), 2, "the second result");
                session.said("SELECT 1", "\"rows\": 1");
                session.said(" SELECT 2", "\"rows\": 1");
            }
        }
    }

    private static void transactions() throws Exception {
        try (var session = new Session("transactions")) {
            session.connection.setAutoCommit(false);
            session.said("BEGIN", "");
            equal(session.update("UPDATE jdbc_items SET name = 'a' WHERE id = 1"), 1, "rows updated");
            session.said("UPDATE jdbc_items SET name = 'a' WHERE id = 1", "\"rows\": 1");
            var savepoint = session.connection.setSavepoint("inner");
            session.said("SAVEPOINT \"inner\"", "");
            session.said("INSERT INTO jdbc_items (id) VALUES (1)", "\"sqlstate\": \"23505\"");
            fails("23505", "a second row with one key",
                    () -> session.update("INSERT INTO jdbc_items (id) VALUES (1)"));
            session.connection.rollback(savepoint);
            session.said("ROLLBACK TO SAVEPOINT \"inner\"", "");
            session.connection.commit();
            session.said("COMMIT", "");
            session.said("BEGIN", "");
            for (String[] one : new String[][] {{"SELECT nothing FROM jdbc_items", "42703"}, {"SELECT 1", "25P02"}}) {
                session.said(one[0], "\"sqlstate\": \"" + one[1] + "\"");
                fails(one[1], one[0], () -> session.update(one[0]));
            }
            session.connection.rollback();
            session.said("ROLLBACK", "");
        }
    }

    private static void batches() throws Exception {
        try (var session = new Session("batches")) {
            try (PreparedStatement statement = session.connection
                    .prepareStatement("INSERT INTO jdbc_items (id, name) VALUES (?, ?)")) {
                for (int n = 100; n < 300; n++) {
                    statement.setInt(1, n);
                    statement.setString(2, "many " + n);
                    statement.addBatch();
                    session.said("INSERT INTO jdbc_items (id, name) VALUES ($1, $2)",
                            List.of("" + n, "many " + n), "\"rows\": 1");
                }
                equal(Arrays.stream(statement.executeBatch()).sum(), 200, "rows of a batch");
            }
            // What stands behind an error in a batch is passed over; outside of a transaction block the
            // whole batch is undone.
            try (PreparedStatement statement = session.connection
                    .prepareStatement("INSERT INTO jdbc_items (id) VALUES (?)")) {
                for (int n : new int[] {1000, 1, 1001}) {
                    statement.setInt(1, n);
                    statement.addBatch();
                    session.said("INSERT INTO jdbc_items (id) VALUES ($1)", List.of("" + n),
                            n == 1000 ? "\"rows\": 1" : n == 1 ? "\"sqlstate\": \"23505\"" : "\"unanswered\": true");
                }
                statement.executeBatch();
                equal("nothing", "an error", "a batch with an error");
            } catch (BatchUpdateException error) {
                equal(error.getSQLState(), "23505", "a batch with an error");
            }
            try (Statement statement = session.connection.createStatement();
                    ResultSet row = statement.executeQuery("SELECT count(*) FROM jdbc_items WHERE id >= 1000")) {
                row.next();
                equal(row.getInt(1), 0, "rows of the undone batch");
                session.said("SELECT count(*) FROM jdbc_items WHERE id >= 1000", "\"rows\": 1");
            }
        }
    }

    private static void copies() throws Exception {
        try (var session = new Session("copies")) {
            session.update("CREATE TEMPORARY TABLE copied (a int, b text)");
            session.said("CREATE TEMPORARY TABLE copied (a int, b text)", "");
            var data = new StringBuilder();
            for (int n = 0; n < 1000; n++) {
                data.append(n).append("\tline ").append(n).append(" ü\n");
            }
            byte[] bytes = data.toString().getBytes(StandardCharsets.UTF_8);
            var copy = session.connection.unwrap(PGConnection.class).getCopyAPI();
            equal(copy.copyIn("COPY copied FROM STDIN", new ByteArrayInputStream(bytes)), 1000L, "rows copied in");
            session.said("COPY copied FROM STDIN", "\"kind\": \"simple\", \"rows\": 1000, \"copy_data\": " + quoted(data.toString()));
            session.said("COPY copied FROM STDIN", "\"sqlstate\": \"22P02\", \"copy_data\": " + quoted("x\ty\n"));
            fails("22P02", "x as a number", () -> copy.copyIn("COPY copied FROM STDIN",
                    new ByteArrayInputStream("x\ty\n".getBytes(StandardCharsets.UTF_8))));
            var given = copy.copyIn("COPY copied (a) FROM STDIN");
            byte[] one = "1\n".getBytes(StandardCharsets.UTF_8);
            given.writeToCopy(one, 0, one.length);
            given.cancelCopy();
            session.said("COPY copied (a) FROM STDIN", "\"sqlstate\": \"57014\", \"copy_failed\": true, \"copy_data\": \"1\\n\"");
            var out = new ByteArrayOutputStream();
            equal(copy.copyOut("COPY copied TO STDOUT", out), 1000L, "rows copied out");
            session.said("COPY copied TO STDOUT", "\"rows\": 1000");
            equal(out.toString(StandardCharsets.UTF_8), data.toString(), "what was copied out");
        }
    }

    private static void largeAndFetchSizes() throws Exception {
        try (var session = new Session("large")) {
            session.connection.setAutoCommit(false);
            session.said("BEGIN", "");
            String large = "SELECT n, repeat(md5(n::text), 16) FROM generate_series(1, 10000) n";
            try (Statement statement = session.connection.createStatement();
                    ResultSet rows = statement.executeQuery(large)) {
                long length = 0;
                while (rows.next()) {
                    length += rows.getString(2).length();
                }
                equal(length, 5120000L, "a large result");
                session.said(large, "\"rows\": 10000");
            }
            // A portal, asked for 400 rows at a time.
            try (PreparedStatement statement = session.connection
                    .prepareStatement("SELECT n FROM generate_series(1, ?) n")) {
                statement.setFetchSize(400);
                statement.setInt(1, 1000);
                long sum = 0;
                try (ResultSet rows = statement.executeQuery()) {
                    while (rows.next()) {
                        sum += rows.getInt(1);
                    }
                }
                equal(sum, 500500L, "what a portal gave");
                String sql = "SELECT n FROM generate_series(1, $1) n";
                session.said(sql, List.of("1000"), "\"kind\": \"execute\", \"rows\": 400");
                session.said(sql, "\"kind\": \"fetch\", \"rows\": 400");
                session.said(sql, "\"kind\": \"fetch\", \"rows\": 200");
            }
            session.connection.commit();
            session.said("COMMIT", "");
        }
    }

    private static void cancelled() throws Exception {
        try (var session = new Session("cancel"); Statement statement = session.connection.createStatement()) {
            var timer = new Timer(true);
            timer.schedule(new TimerTask() {
                @Override
                public void run() {
                    try {
                        statement.cancel();
                    } catch (SQLException error) {
                        System.err.println("jdbc: the cancel was not sent: " + error);
                    }
                }
            }, 500);
            String cancel = "{\"kind\": \"cancel\"}";
            session.said("SELECT pg_sleep(30)", "\"sqlstate\": \"57014\"");
            session.statements.add(cancel);
            fails("57014", "a cancelled statement", () -> statement.executeQuery("SELECT pg_sleep(30)"));
            timer.cancel();
            // The driver's own time limit is a cancel as well.
            statement.setQueryTimeout(1);
            session.said("SELECT pg_sleep(31)", "\"sqlstate\": \"57014\"");
            session.statements.add(cancel);
            fails("57014", "a statement past its time", () -> statement.executeQuery("SELECT pg_sleep(31)"));
            try (ResultSet row = statement.executeQuery("SELECT 1")) {
                row.next();
                equal(row.getInt(1), 1, "what comes after a cancel");
                session.said("SELECT 1", "\"rows\": 1");
            }
        }
    }

    private static void notifications() throws Exception {
        try (var listener = new Session("listener"); var teller = new Session("teller")) {
            listener.update("LISTEN jdbc_news");
            listener.said("LISTEN jdbc_news", "");
            teller.update("NOTIFY jdbc_news, 'hello'");
            teller.said("NOTIFY jdbc_news, 'hello'", "");
            PGNotification[] came = listener.connection.unwrap(PGConnection.class).getNotifications(10000);
            equal(came.length, 1, "notifications");
            equal(came[0].getName() + " " + came[0].getParameter(), "jdbc_news hello", "the notification");
        }
    }

    /** preferQueryMode=simple: parameters are written into the text. */
    private static void simpleOnly() throws Exception {
        try (var session = new Session("simple", "preferQueryMode", "simple");
                PreparedStatement statement = session.connection.prepareStatement("SELECT ?::int + 1")) {
            statement.setInt(1, 41);
            try (ResultSet row = statement.executeQuery()) {
                row.next();
                equal(row.getInt(1), 42, "a sum");
                session.said("SELECT ('41'::int4)::int + 1", "\"kind\": \"simple\", \"rows\": 1");
            }
        }
    }

    /** Six connections at once, each with its own numbers. */
    private static void several() throws Exception {
        var threads = new ArrayList<Thread>();
        for (int place = 0; place < 6; place++) {
            var session = new Session("several-" + place);
            int own = place;
            threads.add(new Thread(() -> {
                try (session; PreparedStatement statement = session.connection
                        .prepareStatement("SELECT ?::int + ?::int")) {
                    for (int n = 0; n < 50; n++) {
                        statement.setInt(1, own);
                        statement.setInt(2, n);
                        try (ResultSet row = statement.executeQuery()) {
                            row.next();
                            equal(row.getInt(1), own + n, "a sum");
                        }
                        session.said("SELECT $1::int + $2::int", List.of("" + own, "" + n), "\"rows\": 1");
                    }
                } catch (SQLException error) {
                    equal(error.toString(), "no error", "one of six connections");
                }
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
    }
}
