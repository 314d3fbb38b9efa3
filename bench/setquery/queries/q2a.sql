select count(*) from bench where k2 = 2 and k1k = 3
