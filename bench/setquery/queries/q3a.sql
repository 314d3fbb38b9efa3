select sum(k1k) from bench where kseq between 400000 and 500000 and k100 = 3
