-- The Set Query benchmark (P. O'Neil, "The Set Query Benchmark", The Benchmark Handbook, 1993): its 13 number columns.
create table bench (
    kseq integer not null,
    k500k integer not null,
    k250k integer not null,
    k100k integer not null,
    k40k integer not null,
    k10k integer not null,
    k1k integer not null,
    k100 integer not null,
    k25 integer not null,
    k10 integer not null,
    k5 integer not null,
    k4 integer not null,
    k2 integer not null
);
