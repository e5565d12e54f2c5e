import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.postgresql.PGConnection;
import org.postgresql.ds.PGSimpleDataSource;

/** What each connection sent, from the JDBC driver's own log of its messages, which is complete. */
final class Wire extends Handler {
    static final List<Wire.Line> lines = Collections.synchronizedList(new ArrayList<>());
    /** A connection may be opened in a thread of its own. */
    private static final ThreadLocal<Line> current = new InheritableThreadLocal<>();
    private static final Map<Integer, Line> byProcess = new ConcurrentHashMap<>();
    private static final Logger logger = Logger.getLogger("org.postgresql");
    private static final Pattern message = Pattern.compile("(?s) FE=> (?:(Parse|Bind|Execute|SimpleQuery)\\((.*)\\)|Sync)");
    private static final Pattern parse = Pattern.compile("(?s)stmt=(\\w+),query=\"(.*)\",oids=\\{.*\\}");
    private static final Pattern bind = Pattern.compile("(?s)stmt=(\\w+),portal=(\\w+)(.*)");
    private static final Pattern value = Pattern.compile("(?s),\\$\\d+=<(?:\\(?NULL\\)?|\\(?(?:'((?:[^']|'')*)'|([^'>)]*))[^>]*)>,type=(\\w+)");
    private static final Pattern sqlstate = Pattern.compile("SQLState: (\\w+)");

    /** One connection. */
    static final class Line {
        final String application;
        final List<Map<String, Object>> statements = new ArrayList<>();
        private final Map<String, String> prepared = new HashMap<>();
        private final Map<String, Map<String, Object>> portals = new HashMap<>();
        /** What has no answer yet; an empty one stands for a Sync. */
        private final ArrayDeque<Map<String, Object>> waiting = new ArrayDeque<>();
        private int rows;

        Line(String application) {
            this.application = application;
            lines.add(this);
        }

        private void sent(Map<String, Object> statement) {
            statements.add(statement);
            waiting.add(statement);
        }

        void frontend(String kind, String rest) {
            switch (kind) {
                case "Parse" -> {
                    Matcher found = matched(parse, rest);
                    prepared.put(found.group(1), found.group(2));
                }
                case "Bind" -> {
                    Matcher found = matched(bind, rest);
                    var statement = new HashMap<String, Object>();
                    var texts = new ArrayList<String>();
                    var types = new ArrayList<String>();
                    for (Matcher one = value.matcher(found.group(3)); one.find();) {
                        texts.add(one.group(1) != null ? one.group(1).replace("''", "'") : one.group(2));
                        types.add(typed(one.group(3).toLowerCase(), texts.get(texts.size() - 1)));
                    }
                    statement.put("sql", prepared.get(found.group(1)));
                    statement.put("named", !found.group(1).equals("null"));
                    // The driver's log has no arrays in binary form.
                    statement.put("parameters", texts.stream().map(text -> "?".equals(text) ? Map.of() : (Object) text).toList());
                    statement.put("types", types);
                    statement.put("kind", "execute");
                    portals.put(found.group(2), statement);
                }
                case "Execute" -> {
                    String portal = rest.substring(rest.indexOf('=') + 1, rest.indexOf(','));
                    var statement = portals.get(portal);
                    if (statements.contains(statement) && statements.stream().anyMatch(one -> one == statement)) {
                        sent(new HashMap<>(Map.of("sql", statement.get("sql"), "kind", "fetch")));
                    } else {
                        sent(statement);
                    }
                }
                case "Sync" -> waiting.add(Map.of());
                default -> {
                    sent(new HashMap<>(Map.of("sql", rest.substring(rest.indexOf('"') + 1, rest.lastIndexOf('"')), "kind", "simple")));
                    waiting.add(Map.of());
                }
            }
        }

        void backend(String text) {
            if (text.startsWith("DataRow")) {
                rows++;
            } else if (text.startsWith("CommandStatus") || text.startsWith("PortalSuspended")) {
                String last = text.replaceAll("(?s).*[( ](\\d+)\\)$", "$1");
                var statement = "simple".equals(waiting.peek().get("kind")) ? waiting.peek() : waiting.poll();
                if (last.matches("\\d+")) {
                    statement.put("rows", Integer.parseInt(last));
                } else if (text.startsWith("PortalSuspended")) {
                    statement.put("rows", rows);
                }
                rows = 0;
            } else if (text.startsWith("ErrorMessage")) {
                Matcher found = sqlstate.matcher(text);
                found.find();
                var statement = waiting.poll();
                statement.remove("rows");
                statement.put("sqlstate", found.group(1));
                rows = 0;
            } else if (text.startsWith("ReadyForQuery")) {
                for (var one = waiting.poll(); one != null && !one.isEmpty(); one = waiting.poll()) {
                    if (!"simple".equals(one.get("kind"))) {
                        one.put("unanswered", true);
                    }
                }
            }
        }
    }

    /** The type by PostgreSQL's name; of a time without one, which a log has in another form. */
    private static String typed(String name, String text) {
        if (name.endsWith("_array")) {
            return name.startsWith("varchar") ? "text[]" : name.replace("_array", "[]");
        }
        if (name.equals("unspecified") && text != null && text.matches("\\d{4}-\\d\\d-\\d\\d .*")) {
            return text.contains(":") ? "timestamptz" : "date";
        }
        return name;
    }

    private static Matcher matched(Pattern pattern, String text) {
        Matcher found = pattern.matcher(text);
        if (!found.matches()) {
            throw new IllegalStateException(text);
        }
        return found;
    }

    /** Begins to note. */
    static void watch() {
        logger.setLevel(Level.FINEST);
        logger.setUseParentHandlers(false);
        logger.addHandler(new Wire());
        Logger.getLogger("").setLevel(Level.OFF);
    }

    @Override
    public void publish(LogRecord record) {
        String text = record.getMessage();
        Object[] values = record.getParameters();
        for (int n = 0; values != null && n < values.length; n++) {
            text = text.replace("{" + n + "}", String.valueOf(values[n]));
        }
        Matcher found = message.matcher(text);
        Line line = current.get();
        if (line == null || !record.getLoggerName().endsWith("QueryExecutorImpl")) {
            return;
        }
        try {
            if (found.matches()) {
                line.frontend(found.group(1) == null ? "Sync" : found.group(1), found.group(2));
            } else if (text.startsWith(" <=BE ")) {
                line.backend(text.substring(6));
            }
        } catch (RuntimeException error) {
            error.printStackTrace();
            System.err.println(text);
            System.exit(1);
        }
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}

    /** The driver's connections: each is noted from its beginning. */
    static final class Driver extends PGSimpleDataSource {
        @Override
        public Connection getConnection(String user, String password) throws SQLException {
            var line = new Line(getApplicationName());
            current.set(line);
            Connection connection = super.getConnection(user, password);
            byProcess.put(connection.unwrap(PGConnection.class).getBackendPID(), line);
            return connection;
        }
    }

    /** A pool: a thread notes for the connection that it was given last. */
    static final class Pool extends HikariDataSource {
        @Override
        public Connection getConnection() throws SQLException {
            Connection connection = super.getConnection();
            current.set(byProcess.get(connection.unwrap(PGConnection.class).getBackendPID()));
            return connection;
        }
    }
}
