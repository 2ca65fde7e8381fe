"""Plain numbers: views in which value lists are JSON objects, for tools that know SQL and not Ganglion.

Value lists rest as msgpack. These views unpack them when they are read, in the database's own language, so that writing
pays nothing. In SQLite bytes are looked up in a list of all bytes; PostgreSQL has a function for them. Doubles are put
together from sign, exponent and mantissa, exactly.
They are no part of the schema: nothing of ours reads them, a store without them is whole, and `ganglion store migrate`
makes them in one. An object has the declared ids as keys (with several bodies in a row `id[n]`, of the n-th of them);
an array is the flat list of its elements, and one that differs in length from row to row (`Ragged`) is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

_BYTES = "".join(f"{byte:02X}" for byte in range(256))
_POWERS = {
    n: "*".join(["4294967296.0"] * (n // 32)) if n >= 32 else f"{2.0**n}"
    for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
}


# With it a part of a query is carried out for itself, and not written into the next one, many times over.
_ASIDE = " LIMIT -1 OFFSET 0"


def _byte(at: str) -> str:
    return f"(instr(a, substr(b, {at}, 1)) - 1)"


def _unsigned(at: str, size: int, little: bool = False) -> str:
    """Return the SQL of an integer of so many bytes."""
    parts = []
    for n in range(size):
        shift = 8 * (n if little else size - 1 - n)
        parts.append(f"({_byte(f'{at} + {n}')} << {shift})")
    return f"({' | '.join(parts)})"


def _signed(at: str, size: int, little: bool = False) -> str:
    if size == 8:
        return _unsigned(at, 8, little)  # 64 bits are signed in SQLite
    return f"(({_unsigned(at, size, little)} + {1 << (8 * size - 1)}) % {1 << (8 * size)} - {1 << (8 * size - 1)})"


def _scaled(number: str, exponent: str, sign: str) -> str:
    """Return a number times two to the exponent: by factors that are exact."""
    up = "".join(f" * CASE WHEN {exponent} > 0 AND {exponent} & {n} THEN {p} ELSE 1.0 END" for n, p in _POWERS.items())
    down = "".join(
        f" / CASE WHEN {exponent} < 0 AND -{exponent} & {n} THEN {p} ELSE 1.0 END" for n, p in _POWERS.items()
    )
    twice = f" / CASE WHEN {exponent} <= -1024 THEN {_POWERS[512]} ELSE 1.0 END" * 2
    return f"(CASE WHEN {sign} THEN -1.0 ELSE 1.0 END * {number}{up}{down}{twice})"


def _column(blob: str, kind: str, member: str, environment: str) -> str:
    """Return the SQL of a value list as a JSON object: declared id -> number, boolean, null, or list of numbers."""
    length = (
        f"(CASE WHEN t < 128 OR t >= 224 OR t IN (192, 194, 195) THEN 1 WHEN t IN (204, 208) THEN 2 "
        f"WHEN t IN (205, 209) THEN 3 WHEN t IN (202, 206, 210) THEN 5 WHEN t IN (203, 207, 211) THEN 9 "
        f"WHEN t = 196 THEN 2 + {_unsigned('p + 1', 1)} WHEN t = 197 THEN 3 + {_unsigned('p + 1', 2)} "
        f"WHEN t = 198 THEN 5 + {_unsigned('p + 1', 4)} END)"
    )
    begin = "CASE t WHEN 196 THEN p + 2 WHEN 197 THEN p + 3 ELSE p + 5 END"
    one, two, four = (_unsigned("p + 1", n) for n in (1, 2, 4))
    size = f"CASE t WHEN 196 THEN {one} WHEN 197 THEN {two} ELSE {four} END"
    beyond = f"{begin} + {size}".replace(" t ", " w.t ").replace("p +", "w.p +")
    name = "id || CASE WHEN wide < n THEN '[' || (i / wide) || ']' ELSE '' END"
    integer = (
        "CASE WHEN t < 128 THEN t WHEN t >= 224 THEN t - 256 WHEN t = 194 THEN 0 WHEN t = 195 THEN 1 "
        + " ".join(f"WHEN t = {204 + n} THEN {_unsigned('p + 1', 1 << n)}" for n in range(4))
        + " "
        + " ".join(f"WHEN t = {208 + n} THEN {_signed('p + 1', 1 << n)}" for n in range(4))
        + " END"
    )
    return f"""(
WITH RECURSIVE k(a, b) AS (SELECT X'{_BYTES}', {blob}{_ASIDE}),
h(n, o) AS (SELECT CASE t WHEN 220 THEN {_unsigned("2", 2)} WHEN 221 THEN {_unsigned("2", 4)} ELSE t - 144 END,
  CASE t WHEN 220 THEN 4 WHEN 221 THEN 6 ELSE 2 END FROM (SELECT {_byte("1")} AS t, a, b FROM k){_ASIDE}),
w(i, p, t) AS (SELECT 0, o, {_byte("o")} FROM h, k WHERE n > 0
  UNION ALL SELECT i + 1, p + {length}, {_byte(f"p + {length}")} FROM w, k, h WHERE i + 1 < n),
d(position, id, dtype, ragged, wide) AS (SELECT position, id, dtype, space LIKE 'Ragged(%', count(*) OVER ()
  FROM stored_declarations WHERE run = stored_runs.number AND phase = stored_episodes.phase AND kind = '{kind}'
  AND {member} AND environment = {environment}{_ASIDE}),
e(i, j, f, q, t, id, dtype) AS (SELECT i, NULL, CASE t WHEN 202 THEN 'f4' WHEN 203 THEN 'f8' END, p + 1, t,
    {name}, dtype FROM w, h, d
    WHERE position = i % wide AND t NOT IN (196, 197, 198)
  UNION ALL SELECT i, 0, substr(dtype, 2), {begin}, t, {name}, dtype
    FROM w, k, h, d WHERE position = i % wide AND t IN (196, 197, 198) AND NOT ragged
  UNION ALL SELECT e.i, j + 1, f, q + CAST(substr(f, 2) AS INTEGER), e.t, id, dtype FROM e, w, k
    WHERE e.i = w.i AND j IS NOT NULL AND q + 2 * CAST(substr(f, 2) AS INTEGER) <= {beyond}),
m(i, j, id, dtype, t, p, q, f, hi, lo) AS (SELECT e.i, j, id, dtype, e.t, w.p, q, f,
    CASE WHEN f = 'f4' AND j IS NULL THEN {_unsigned("q", 4)} WHEN f = 'f4' THEN {_unsigned("q", 4, True)}
      WHEN f = 'f8' AND j IS NULL THEN {_unsigned("q", 4)} WHEN f = 'f8' THEN {_unsigned("q + 4", 4, True)} END,
    CASE WHEN f = 'f8' AND j IS NULL THEN {_unsigned("q + 4", 4)} WHEN f = 'f8' THEN {_unsigned("q", 4, True)} END
  FROM e JOIN w ON e.i = w.i, k{_ASIDE}),
x(i, j, id, dtype, t, p, q, f, s, z, u) AS (SELECT i, j, id, dtype, t, p, q, f, hi >> 31,
    CASE f WHEN 'f8' THEN (hi >> 20) & 2047 WHEN 'f4' THEN (hi >> 23) & 255 END,
    CASE f WHEN 'f8' THEN ((hi & 1048575) << 32) | lo WHEN 'f4' THEN hi & 8388607 END FROM m{_ASIDE}),
v(i, j, id, dtype, t, p, q, f, s, z, u, g) AS (SELECT i, j, id, dtype, t, p, q, f, s, z = 2047 OR f = 'f4' AND z = 255,
    CASE WHEN z THEN u + CASE f WHEN 'f8' THEN 4503599627370496 ELSE 8388608 END ELSE u END,
    max(z, 1) - CASE f WHEN 'f8' THEN 1075 ELSE 150 END FROM x{_ASIDE}),
y(i, j, id, dtype, t, value) AS (SELECT i, j, id, dtype, t, CASE
    WHEN z AND u NOT IN (4503599627370496, 8388608) THEN NULL WHEN z AND s THEN -9e999 WHEN z THEN 9e999
    WHEN z = 0 THEN {_scaled("CAST(u AS REAL)", "g", "s")}
    WHEN j IS NULL THEN {integer}
    {" ".join(f"WHEN f = 'u{1 << n}' THEN {_unsigned('q', 1 << n, True)}" for n in range(4))}
    {" ".join(f"WHEN f = 'i{1 << n}' THEN {_signed('q', 1 << n, True)}" for n in range(4))}
    WHEN f = 'b1' THEN {_byte("q")} END FROM v, k{_ASIDE}),
r(i, j, id, t, text) AS (SELECT i, j, id, t, CASE WHEN value IS NULL THEN 'null'
    WHEN t IN (194, 195) OR dtype IN ('|b1', 'bool', '?', 'b1') THEN CASE WHEN value THEN 'true' ELSE 'false' END
    WHEN typeof(value) = 'integer' THEN value WHEN value = 9e999 THEN '1e999' WHEN value = -9e999 THEN '-1e999'
    WHEN CAST(printf('%!.15g', value) AS REAL) = value THEN printf('%!.15g', value)
    ELSE printf('%!.20g', value) END FROM y{_ASIDE})
SELECT '{{' || group_concat(json_quote(id) || ':' || text) || '}}' FROM (SELECT i, id,
  CASE WHEN max(j) IS NULL THEN max(text) ELSE '[' || group_concat(text) || ']' END AS text
  FROM (SELECT * FROM r ORDER BY i, j) WHERE j IS NOT NULL OR t <> 192 OR '{kind}' <> 'actuator'
  GROUP BY i ORDER BY i))"""  # noqa: S608 - ours


_JOINED = (
    "JOIN stored_segments ON {table}.segment = stored_segments.number "
    "JOIN stored_episodes ON stored_segments.episode = stored_episodes.number "
    "JOIN stored_members ON stored_segments.member = stored_members.number "
    "JOIN stored_runs ON stored_episodes.run = stored_runs.number"
)
_PLACE = "stored_runs.run AS run, " + ", ".join(f"stored_episodes.{it} AS {it}" for it in ("phase", "mode", "worker"))
_TIMES = "tick, simtime_ticks, simtime_timestamp"
_OF_ENVIRONMENT = "agent = ''", "stored_members.name"
_OF_AGENT = (
    "agent = stored_members.name",
    "(SELECT max(environment) FROM stored_declarations WHERE run = stored_runs.number AND agent = stored_members.name "  # noqa: ISC004
    "AND phase = stored_episodes.phase AND environment IN ('', {within}))",
)
_WITHIN = "substr(stored_episodes.environment, 1, instr(stored_episodes.environment || '[', '[') - 1)"


def _lists(lists: dict[str, tuple[str, str]], agent: bool, within: str, column: Callable[..., str]) -> list[str]:
    member, environment = _OF_AGENT if agent else _OF_ENVIRONMENT
    place = environment.format(within=within)
    return [f"{column(blob, kind, member, place)} AS {name}" for name, (blob, kind) in lists.items()]


_LISTS = {"sensors": ("sensors", "sensor"), "setpoints": ("setpoints", "actuator"), "rewards": ("rewards", "reward")}
_OF = "stored_members.name AS {}, stored_episodes.episode AS episode, "
_VIEWS: dict[str, tuple[str, str, dict[str, tuple[str, str]], str, bool]] = {
    "steps": (
        "stored_steps",
        _OF.format("environment") + f"step, {_TIMES}",
        _LISTS,
        "stored_steps.terminated AS terminated, stored_steps.truncated AS truncated",
        False,
    ),
    "resets": (
        "stored_resets",
        _OF.format("environment") + f"step, {_TIMES}",
        {"sensors": _LISTS["sensors"]},
        "",
        False,
    ),
    "actions": (
        "stored_actions",
        _OF.format("agent") + "nullif({within}, '') AS environment, body, step, tick",
        {**_LISTS, "proposed": ("coalesce(proposed, setpoints)", "actuator")},
        "objective, stored_actions.terminated AS terminated, stored_actions.truncated AS truncated",
        True,
    ),
}


def _views(create: str, within: str, column: Callable[..., str]) -> Iterator[str]:
    for name, (table, head, lists, tail, agent) in _VIEWS.items():
        parts = [_PLACE, head.format(within=within), *_lists(lists, agent, within, column), *filter(None, [tail])]
        yield f"{create} {name}_json AS SELECT {', '.join(parts)} FROM {table} {_JOINED.format(table=table)}"  # noqa: S608 - ours


CREATE = tuple(_views("CREATE VIEW IF NOT EXISTS", _WITHIN, _column))
"""The statements that make the views in SQLite; where they are already nothing is done."""

_UNPACK = """
CREATE OR REPLACE FUNCTION stored_plain(blob bytea, ids text[], dtypes text[], ragged boolean[], given boolean)
RETURNS json LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET extra_float_digits TO 1 AS $$
DECLARE
  wide int := cardinality(ids); n int; p int; t int; at int; size int; last int; width int; kind text; bits bigint;
  exponent int; part bigint; value text; item text; found text := ''; little boolean; flag boolean;
BEGIN
  IF blob IS NULL OR wide IS NULL THEN RETURN NULL; END IF;
  t := get_byte(blob, 0);
  IF t = 220 THEN n := get_byte(blob, 1) * 256 + get_byte(blob, 2); p := 3;
  ELSIF t = 221 THEN n := (get_byte(blob, 1) * 256 + get_byte(blob, 2)) * 65536 + get_byte(blob, 3) * 256
    + get_byte(blob, 4); p := 5;
  ELSE n := t - 144; p := 1; END IF;
  FOR i IN 0 .. n - 1 LOOP
    t := get_byte(blob, p); at := p + 1; little := false; value := NULL;
    flag := dtypes[i % wide + 1] IN ('|b1', 'bool', '?', 'b1');
    IF t < 128 OR t >= 224 THEN kind := 'i1'; at := p;
    ELSIF t IN (192, 194, 195) THEN kind := NULL;
    ELSIF t = 202 THEN kind := 'f4'; ELSIF t = 203 THEN kind := 'f8';
    ELSIF t BETWEEN 204 AND 207 THEN kind := 'u' || (1 << (t - 204));
    ELSIF t BETWEEN 208 AND 211 THEN kind := 'i' || (1 << (t - 208));
    ELSE
      size := 0; little := true; kind := ltrim(dtypes[i % wide + 1], '<|');
      FOR j IN 0 .. (1 << (t - 196)) - 1 LOOP size := size * 256 + get_byte(blob, at + j); END LOOP;
      at := at + (1 << (t - 196));
    END IF;
    IF kind IS NULL THEN
      p := at; value := CASE t WHEN 194 THEN 'false' WHEN 195 THEN 'true' END;
    ELSE
      width := substr(kind, 2)::int; last := CASE WHEN little THEN at + size ELSE at + width END; p := last;
      WHILE at < last LOOP
        bits := 0;
        FOR j IN 0 .. width - 1 LOOP
          bits := (bits << 8) | get_byte(blob, CASE WHEN little THEN at + width - 1 - j ELSE at + j END);
        END LOOP;
        at := at + width; item := bits::text;
        IF kind = 'b1' OR flag THEN item := CASE WHEN bits = 0 THEN 'false' ELSE 'true' END;
        ELSIF kind = 'u8' AND bits < 0 THEN item := (bits::numeric + 18446744073709551616)::text;
        ELSIF left(kind, 1) = 'i' AND width < 8 AND bits >= 1::bigint << (8 * width - 1) THEN
          item := (bits - (1::bigint << (8 * width)))::text;
        ELSIF left(kind, 1) = 'f' THEN
          IF width = 8 THEN
            flag := bits < 0; exponent := (bits >> 52) & 2047; part := bits & 4503599627370495;
            IF exponent = 2047 THEN exponent := NULL; END IF;
            item := (CASE WHEN exponent = 0 THEN part ELSE part + 4503599627370496 END
              * power(2::float8, greatest(exponent, 1) - 1075))::text;
          ELSE
            flag := bits >= 2147483648; exponent := (bits >> 23) & 255; part := bits & 8388607;
            IF exponent = 255 THEN exponent := NULL; END IF;
            item := (CASE WHEN exponent = 0 THEN part ELSE part + 8388608 END
              * power(2::float8, greatest(exponent, 1) - 150))::text;
          END IF;
          IF exponent IS NULL THEN item := CASE WHEN part = 0 THEN '1e999' ELSE 'null' END; END IF;
          IF flag AND item <> 'null' THEN item := '-' || item; END IF;
          flag := false;
        END IF;
        value := CASE WHEN value IS NULL THEN item ELSE value || ',' || item END;
      END LOOP;
      IF little THEN value := '[' || coalesce(value, '') || ']'; END IF;
    END IF;
    CONTINUE WHEN little AND ragged[i % wide + 1] OR t = 192 AND given;
    found := found || CASE WHEN found = '' THEN '' ELSE ',' END || to_json(ids[i % wide + 1]
      || CASE WHEN wide < n THEN '[' || i / wide || ']' ELSE '' END)::text || ':' || coalesce(value, 'null');
  END LOOP;
  RETURN '{' || found || '}';
END $$"""


def _called(blob: str, kind: str, member: str, environment: str) -> str:
    """Return the SQL of PostgreSQL of a value list as a JSON object."""
    arrays = ", ".join(f"array_agg({it} ORDER BY position)" for it in ("id", "dtype", "starts_with(space, 'Ragged(')"))
    return (
        f"(SELECT stored_plain({blob}, {arrays}, {str(kind == 'actuator').lower()}) FROM stored_declarations "  # noqa: S608 - ours
        f"WHERE stored_declarations.run = stored_runs.number AND stored_declarations.phase = stored_episodes.phase "
        f"AND kind = '{kind}' AND {member} AND environment = {environment})"
    )


POSTGRES = (_UNPACK, *_views("CREATE OR REPLACE VIEW", "split_part(stored_episodes.environment, '[', 1)", _called))
"""The statements that make the same views in PostgreSQL."""
