select kseq, k500k from bench
where k2 = 1 and k100 > 80 and k10k between 2000 and 3000 and k5 = 3 and (k25 = 11 or k25 = 19)
order by kseq
