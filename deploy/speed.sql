-- Medians over any number of result files, with the machine they were made on:
--   cd results && duckdb < speed.sql
-- The columns are named, not guessed: a guess would be made from the first files alone, and
-- union_by_name keeps every file open, which takes gigabytes for a thousand of them.
SELECT
    harness,
    threads,
    size,
    allocator,
    version,
    cpu,
    count(*) AS runs,
    median(value) AS metric,
    any_value(unit) AS unit,
    median(peak_rss_bytes) / 1048576 AS peak_mib
FROM read_json('*.jsonl', format = 'newline_delimited', columns = {
    harness: 'VARCHAR',
    threads: 'UBIGINT',
    size: 'UBIGINT',
    allocator: 'VARCHAR',
    version: 'VARCHAR',
    cpu: 'VARCHAR',
    failure: 'VARCHAR',
    value: 'DOUBLE',
    unit: 'VARCHAR',
    peak_rss_bytes: 'UBIGINT'
})
WHERE failure IS NULL
GROUP BY ALL
ORDER BY ALL;
