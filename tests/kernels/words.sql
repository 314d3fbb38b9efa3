-- Queries whose kernels use every word of tile C.  scripts/cuda-check compiles what EXPLAIN (KERNEL) prints for them.

create table sale (id integer not null, store integer, item integer not null, day date, price decimal(10,2), weight real,
                   ratio double precision, many bigint, note text, paid boolean);
insert into sale values
    (1, 1, 10, '2024-01-31', 12.50, 1.5, 0.25, 9000000000000000000, 'red', true),
    (2, 2, 20, '2024-02-29', 7.25, null, -1.5, 8000000000000000000, 'green', false),
    (3, null, 30, null, null, 2.25, 'NaN', null, null, null);
-- A second chunk with other widths and a base of its own.
insert into sale values
    (100000, 3, 70000, '1999-12-31', 1234567.89, -3, 1e300, -7000000000000000000, 'blue', true),
    (100001, 1, 70001, '2030-06-15', 0.01, 0.5, 0, 5, 'red', false);

-- Keys far apart: a hash table.  Keys of several kinds: several words.  Keys that come twice: several matches.
create table store (id integer, city text, opened date, area double precision, code bigint);
insert into store values (1, 'Oslo', '1990-05-17', 10.5, -9000000000000000000), (2, 'Rome', null, null, 0),
    (3, 'Bern', '2001-09-09', 7, 9000000000000000000), (1, 'Kyiv', '1970-01-01', -2, 5), (2000000000, 'Lima', '2020-02-02', 1, 5);
create table item (id integer, name text, cost decimal(6,2), tax real);
insert into item values (10, 'pen', 1.25, 0.1), (20, 'ink', null, 0.2), (30, 'pad', 0.50, null), (70000, 'cup', 3, 0), (70001, 'hat', 15, 0.5);

-- Chunks that store a column in different widths.
set chunk_rows = 64;
create table width (n bigint not null);
insert into width values
    (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15), (16), (17), (18), (19), (20),
    (21), (22), (23), (24), (25), (26), (27), (28), (29), (30), (31), (32), (33), (34), (35), (36), (37), (38),
    (39), (40), (41), (42), (43), (44), (45), (46), (47), (48), (49), (50), (51), (52), (53), (54), (55), (56),
    (57), (58), (59), (60), (61), (62), (63), (64);
insert into width values (-5000000000), (5000000000);

-- totals
explain (kernel) select count(*), count(store), sum(price), min(price), max(price), avg(item) from sale where item between 10 and 30;
explain (kernel) select sum(many), sum(many * 2), min(many), max(many) from sale;
explain (kernel) select sum(weight), avg(ratio), min(ratio), max(ratio), min(weight) from sale where paid;
explain (kernel) select sum(area), avg(area), sum(area * area), sum(1 / area) from store where area <> 0;
explain (kernel) select city, sum(area), avg(area / 3) from store group by city;
explain (kernel) select paid, sum(ratio), avg(ratio * weight) from sale group by paid;
explain (kernel) select many, sum(ratio), sum(weight) from sale group by many;
explain (kernel) select min(note), max(note), count(note) from sale where note like '%e%' and day > date '2000-01-01';
explain (kernel) select count(*) from sale;
explain (kernel) select sum(n), min(n) from width where n between 5 and 3000000000;
explain (kernel) select width.n from width join item on item.id = width.n where width.n > 3;
-- groups in an array, in a hash table with one word per key, and with several
explain (kernel) select note, paid, sum(price), min(day), max(ratio), sum(many) from sale group by note, paid;
explain (kernel) select paid, sum(item) from sale group by paid;
explain (kernel) select note from sale group by note;
explain (kernel) select many, count(*), sum(many), min(weight) from sale group by many;
explain (kernel) select id * 1000000 + item, count(*), max(day) from sale group by 1;
explain (kernel) select ratio, weight, note, many, count(*), sum(price), min(many), max(ratio) from sale group by ratio, weight, note, many;
-- joins: one match, several, keys of several words, text, floats, dates; a cross join
explain (kernel) select sum(sale.price) from sale join item on sale.item = item.id where item.cost > 1;
explain (kernel) select item.name, sum(sale.price) from sale join item on sale.item = item.id group by item.name;
explain (kernel) select item.name, item.cost, item.tax, sale.id from sale join item on sale.item = item.id;
explain (kernel) select sale.id, store.city, store.area from sale join store on sale.store = store.id;
explain (kernel) select store.city, count(*), sum(sale.many) from sale join store on sale.store = store.id group by store.city;
explain (kernel) select sale.id, s.city, i.name from sale join store s on sale.store = s.id join item i on i.id = sale.item where i.tax < 0.3;
explain (kernel) select count(*) from sale join store on sale.many = store.code and sale.day = store.opened;
explain (kernel) select sale.id, store.city from sale join store on sale.ratio = store.area and sale.note = store.city and sale.day = store.opened;
explain (kernel) select a.id, b.id from sale a join sale b on a.note = b.note and a.id < b.id;
explain (kernel) select sale.id, item.name from sale cross join item where sale.price > item.cost;
-- rows
explain (kernel) select id, store, price, weight, ratio, note, paid from sale;
explain (kernel) select id, price * 2, -price, abs(many - 1), id % 7, id / item, many / store, price / 3 from sale where store is not null;
explain (kernel) select id + item, many + many, many - -many, many * item, id * item, ratio / weight, ratio * 2 + weight from sale where not (many = 5);
explain (kernel) select case when store is null then 0 when price > 100 then 1 else item end, coalesce(price, 0), coalesce(note, 'none') from sale;
explain (kernel) select case when paid then note else 'unpaid' end, note = 'red' or price < 5, note in ('red', 'blue'), store in (1, 3, null) from sale;
explain (kernel) select cast(price as integer), cast(ratio as bigint), cast(ratio as decimal(12,3)), cast(id as real), cast(price as decimal(8,1)), cast(many as smallint) from sale where ratio < 1e9;
explain (kernel) select extract(year from day), extract(quarter from day), extract(month from day), extract(day from day), extract(dow from day), extract(isodow from day), extract(doy from day) from sale;
explain (kernel) select day + 30, day - 1, day - date '2024-01-01', day >= date '2024-02-01' from sale;
explain (kernel) select id from sale where ratio < weight or (ratio <> ratio and weight >= 1.5) or 10 / store > 3 or day is null;
explain (kernel) select id from sale where (id > 1 or item < 50) and store = 1 and price between 1 and 20 and note > 'c';
-- many constants: bits, words and doubles in order
explain (kernel) select count(*), sum(price) from sale where item in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39) or many in (0, 1000000000, 2000000000, 3000000000, 4000000000, 5000000000, 6000000000, 7000000000, 8000000000, 9000000000, 10000000000, 11000000000, 12000000000, 13000000000, 14000000000, 15000000000, 16000000000, 17000000000, 18000000000, 19000000000, 20000000000, 21000000000, 22000000000, 23000000000, 24000000000, 25000000000, 26000000000, 27000000000, 28000000000, 29000000000);
explain (kernel) select id, ratio in (0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 11.5, 12.5, 13.5, 14.5, 15.5, 16.5, 17.5, 18.5, 19.5, 20.5, 21.5, 22.5, 23.5, 24.5, 25.5, 26.5, 27.5, 28.5, 29.5) from sale;
