select sum(k1k) from bench
where (kseq between 400000 and 410000 or kseq between 420000 and 430000 or kseq between 440000 and 450000
       or kseq between 460000 and 470000 or kseq between 480000 and 500000)
  and k100 = 3
