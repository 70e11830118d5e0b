-- Tables and indexes with large and small rows, sorting, grouping, searching, JSON, a vacuum.
PRAGMA threads = 4;
PRAGMA cache_size = -2000;
CREATE TABLE item (id INTEGER PRIMARY KEY, key INTEGER, name TEXT, data BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
INSERT INTO item
SELECT i, i * 7919 % 10007, 'name ' || (i * 31 % 997), zeroblob(i % 300) FROM n;
CREATE INDEX item_key ON item (key);
CREATE INDEX item_name ON item (name, key);
SELECT count(*), sum(key), max(length(data)), count(DISTINCT name) FROM item;
SELECT name, count(*), group_concat(id) FROM item WHERE key < 20 GROUP BY name ORDER BY 2, 1;
SELECT a.id, b.id FROM item a JOIN item b ON a.key = b.key + 1 AND a.name = b.name ORDER BY 1, 2 LIMIT 20;
UPDATE item SET data = zeroblob(20000) WHERE id % 1000 = 0;
DELETE FROM item WHERE id % 3 = 0;
BEGIN;
INSERT INTO item SELECT id + 100000, key, upper(name), data FROM item;
ROLLBACK;
SELECT json_group_array(json_object('id', id, 'name', name)) FROM item WHERE key = 5;
SELECT hex(zeroblob(4)), printf('%.5f', sum(1.0 / id)) FROM item;
SELECT id, row_number() OVER (PARTITION BY name ORDER BY key DESC) FROM item ORDER BY key, id LIMIT 20;
VACUUM;
PRAGMA integrity_check;
SELECT length(group_concat(name)) FROM item;
